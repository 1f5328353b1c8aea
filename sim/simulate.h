// Runs an experiment on every rank, in this process, and matches what the ranks did.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/release.h"
#include "sim/program.h"
#include "sim/rank_result.h"
#include "sim/rank_run.h"

namespace zero3::sim {

struct SimulationOptions {
  Release release;
  uint64_t set_order_seed = 0;
  // Makes the watcher of a rank's final run; null: nobody watches.
  std::function<std::unique_ptr<RankWatcher>(int rank)> watch;
  // Another behaviour than the release's; none: the release's.
  std::optional<Behaviour> behaviour = {};
};

SimulationResult simulate(const Experiment& experiment, const SimulationOptions& options);

}  // namespace zero3::sim
