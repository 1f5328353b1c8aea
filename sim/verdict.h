// How a run is judged, under one name everywhere (text, JSON, JUnit), each with its own exit code.
#pragma once

#include <string_view>

namespace zero3::sim {

enum class Verdict {
  kAsExpected,
  kNotAsExpected,
  kBadInput,
  kHang,
  kInconclusive,  // nothing is expected of this release: never a success
  kBackendUnavailable,
};

std::string_view name(Verdict verdict);
int exit_code(Verdict verdict);
// Of several runs: the one that decides the exit code.
Verdict worse(Verdict a, Verdict b);

}  // namespace zero3::sim
