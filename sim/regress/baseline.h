// Stored outcomes of programs, to hold later ones against: docs/regress.md tells the format, version kBaselineVersion.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/release.h"
#include "sim/outcome/outcome.h"
#include "sim/outcome/tested_program.h"

namespace zero3::sim {

constexpr int kBaselineVersion = 1;

// One way in which today's outcome is not the baseline's.
struct OutcomeChange {
  std::string what =
      {};  // "end", "text", "path", "params", "printed", "silent", "wrong-data", "usage", "program", "installed"
  std::string from = {};
  std::string to = {};

  bool operator==(const OutcomeChange&) const = default;
};

// A change that is known and not to fail.
struct AcceptedChange {
  std::string program = {};
  int ranks = 1;
  std::vector<Release> releases = {};  // ascending
  OutcomeChange change = {};
  std::string note = {};  // why, for people
};

struct BaselineProgram {
  std::string name = {};
  std::string file = {};
  int ranks = 1;
  uint64_t seed = 0;
  std::vector<ReleaseOutcome> outcomes = {};  // ascending, never empty

  // That of the release; else of the nearest before it, else of the oldest.
  const ReleaseOutcome& nearest(const Release& release) const;
};

struct Baseline {
  std::vector<BaselineProgram> programs = {};
  std::vector<AcceptedChange> accepted = {};

  std::vector<Release> releases() const;  // of all programs, ascending
};

Baseline baseline_of(const std::vector<TestedProgram>& programs, const std::vector<Release>& releases);

// Pretty-printed, newline at the end.
std::string baseline_text(const Baseline& baseline);
// Throws BadInput under the name `path`: no JSON, another version, a member that is missing or wrong.
Baseline parse_baseline(const std::string& text, const std::string& path);

}  // namespace zero3::sim
