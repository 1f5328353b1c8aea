// Runs an experiment on every rank, in this process, and matches what the ranks did.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/release.h"
#include "sim/backends/sim_communicator.h"
#include "sim/program.h"
#include "sim/rank_runner.h"

namespace zero3::sim {

// A Failure with its params copied out: it outlives the run.
struct RankFailure {
  struct NamedParam {
    int ds_id;
    std::string name;
    ZeroParamStatus status;
    int64_t ds_numel;
  };
  FailureKind kind;
  std::string exception;
  std::string text;
  std::vector<std::string> path;
  std::vector<NamedParam> params;
  size_t statement;  // index in the rank's program
};

struct RankResult {
  int rank = 0;
  std::optional<RankFailure> failure;  // what this rank raised or waits for; none: ran to the end
  std::vector<Collective> collectives;
};

struct SimulationResult {
  std::vector<RankResult> ranks;
  // The rank whose failure came first; -1: none.
  int first_failed_rank = -1;
  // Collectives that paired different params of equal size: the run goes on with wrong data.
  std::vector<std::string> corruptions;

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
