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
#include "sim/rank_runner.h"

namespace zero3::sim {

struct SimulationResult {
  std::vector<RankResult> ranks = {};
  // The rank whose failure came first; -1: none.
  int first_failed_rank = -1;
  // Of ranks that differ; empty where all do the same.
  std::optional<Disagreement> first_disagreement = {};
  std::vector<Waiting> waits = {};  // of each rank that waits for ever, by rank
  std::vector<MixUp> mix_ups = {};  // in the order of rank 0
  // The same in words.
  std::vector<std::string> corruptions = {};

  bool failed() const { return first_failed_rank >= 0; }
};

// Watches one rank's run; told after each statement that ran, the failing one included.
class RankWatcher : public Observer {
 public:
  virtual void after_statement(const Statement& statement, const Failure* failure,
                               const RankRunner& runner) = 0;
};

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
