// A program whose outcomes are asked for, on one number of ranks: that of a scenario file, or a recorded run.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/outcome/outcome.h"
#include "sim/scenario/scenario.h"

namespace zero3::sim {

struct TestedProgram {
  std::string name = {};
  std::string title = {};
  std::string path = {};  // of its file
  Experiment experiment = {};
  uint64_t seed = 0;
  bool recorded = false;  // of a training script, which alone can run it for real
  bool partial = false;   // a recording that was cut: what would have come after is not known
  std::shared_ptr<const Scenario> scenario = {};  // null: of a run file

  int ranks() const { return static_cast<int>(experiment.rank_programs.size()); }
  // A scenario that expects a missing method there raises it; else what the release lacks is the outcome.
  Outcome outcome_on(const Release& release) const;
  std::vector<ReleaseOutcome> outcomes_on(std::span<const Release> releases) const;
  // The command line that tells all of it on that release.
  std::string reproduce(const Release& release) const;
};

// All programs of these files, in their order; a run file may have several. `ranks` and `seed` instead of a scenario's
// own; 0, none: its own. Throws BadInput, also where a run file is asked for another number of ranks than its own.
std::vector<TestedProgram> load_programs(const std::vector<std::string>& files, int ranks,
                                         std::optional<uint64_t> seed);

}  // namespace zero3::sim
