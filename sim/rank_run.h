// One rank's run of its program, on whichever backend its communicator belongs to.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "coordinator/behaviour.h"
#include "coordinator/observer.h"
#include "sim/backends/rank_communicator.h"
#include "sim/program.h"
#include "sim/rank_result.h"
#include "sim/rank_runner.h"

namespace zero3::sim {

// Watches one rank's run; told after each statement that ran, the failing one included.
class RankWatcher : public Observer {
 public:
  virtual void after_statement(const Statement& statement, const Failure* failure,
                               const RankRunner& runner) = 0;
};

struct RankRun {
  RankResult result = {};
  std::vector<WaitPoint> wait_points = {};
  bool ranks_part = false;                   // something that it did depended on its rank
  std::optional<TensorReport> tensors = {};  // none: params had no values
};

// Runs the program of the communicator's rank until a statement raises. `set_order_seed`: see Process. The watcher may
// be null, and so may the tensors: params have no values then.
RankRun run_rank(const Experiment& experiment, const Behaviour& behaviour, RankCommunicator& communicator,
                 uint64_t set_order_seed, RankWatcher* watcher, RankTensors* tensors = nullptr);

}  // namespace zero3::sim
