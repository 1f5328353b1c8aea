// Ranks that do the same: one of them stands for all.
#pragma once

#include <optional>
#include <vector>

#include "sim/backends/sim_communicator.h"
#include "sim/program.h"
#include "sim/rank_run.h"

namespace zero3::sim {

// Ranks that do the same as far as the others let them.
struct RankClass {
  std::vector<int> ranks;  // ascending
  std::optional<Divergence> divergence = {};
  RankRun run = {};
  bool stale = true;  // to be run (again)

  int first() const { return ranks.front(); }
};

// Ranks with the same program do the same, unless it comes to what is theirs alone. In the order of their first ranks.
std::vector<RankClass> classify(const Experiment& experiment);
// Makes ranks that do not do the same classes of their own, to be run. False: all do.
bool part(std::vector<RankClass>& classes);
// The rank whose failure came first, a hang after any other; -1: none failed.
int first_failed(const std::vector<RankClass>& classes);

}  // namespace zero3::sim
