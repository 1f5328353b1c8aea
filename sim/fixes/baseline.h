// What a fix's cost is compared with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "coordinator/release.h"
#include "sim/outcome/outcome.h"
#include "sim/program.h"

namespace zero3::sim {

// What one rank moves and holds. By optimizer step; by forward where there is no such step.
struct Measure {
  double all_gathers = 0;  // collectives launched
  double exposed = 0;      // of them, where their parameters are needed: waited for at once
  double numel = 0;        // elements gathered, of full parameters
  int64_t peak_numel = 0;  // elements gathered or in flight at the same time

  bool operator==(const Measure&) const = default;
};

struct FixBaseline {
  std::string what;  // "the program as it is"
  bool by_forward = false;
  Measure measure;
};

// Of the rank with the lowest number; nothing if nothing was audited, or there is nothing to divide by.
std::optional<Measure> measure_of(const Outcome& outcome, const Experiment& experiment, bool by_forward);

// The first that completes on the release: the program as it is; the same with nothing left out by any forward; the
// same without saves and gather contexts. Nothing if none does.
std::optional<FixBaseline> find_baseline(const Experiment& experiment, const Outcome& outcome,
                                         const Release& release, uint64_t seed);

}  // namespace zero3::sim
