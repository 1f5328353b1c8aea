// One rank: its process, model and engines, and the statements it runs.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "coordinator/engine.h"
#include "sim/program.h"
#include "sim/tensors/rank_tensors.h"

namespace zero3::sim {

class RankRunner {
 public:
  // `set_order_seed`: see Process. The observer may be null, and so may the tensors: params have no values then.
  RankRunner(const Experiment& experiment, const Behaviour& behaviour, Communicator& communicator,
             Observer* observer, uint64_t set_order_seed, RankTensors* tensors = nullptr);

  // Runs one statement's operations until one raises. `index`: the statement's in the program.
  Raised run(const Statement& statement, size_t index = 0);
  // The first engine's model.parameters().
  std::span<Param* const> parameters() const { return engines_.front()->parameters(); }
  std::span<const std::unique_ptr<Engine>> engines() const { return engines_; }

 private:
  Raised run_op(const Op& op);
  void set_training(Engine& engine, const Op& op);
  std::vector<Call> calls(const std::vector<PlannedCall>& plan);

  Process process_;
  Model model_;
  RankTensors* tensors_;
  std::vector<std::unique_ptr<Engine>> engines_;
};

}  // namespace zero3::sim
