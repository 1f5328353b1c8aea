// The values of parameters, gradients and optimizer states on one rank. The coordinator says when they move; nothing
// that it decides depends on them, and most runs have none.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "coordinator/failure.h"

namespace zero3 {

class ModelPass;
class Partitioner;
struct Process;
struct Runtime;

// What the optimizer of one engine holds of its params: this rank's partitions of them in fp32, of their gradients, and
// its own states.
class OptimizerTensors {
 public:
  virtual ~OptimizerTensors() = default;

  // The reduced gradients of one backward. The first of an accumulation cycle overwrite what the buffer holds of their
  // params, later ones are added to it.
  virtual void add_gradients(std::span<Param* const> params, bool first_of_cycle) = 0;
  // The buffer is empty: nothing of the last cycle takes part in the next.
  virtual void drop_gradients() = 0;
  // What arrived in this cycle is infinite.
  virtual void overflow() = 0;
  // Before the ranks sum the squared norms of their gradients (Meeting::kGradientNorm).
  virtual void begin_update() = 0;
  // Updates the fp32 partitions with what the buffer holds, scaled down to a norm of `gradient_clipping` (0: not at
  // all), and the params' partitions from them.
  virtual void update(double gradient_clipping) = 0;
  virtual void save_checkpoint() = 0;
  // Everything as it was when the last checkpoint was saved; nothing, if there is none.
  virtual void load_checkpoint() = 0;
};

class ParamTensors {
 public:
  virtual ~ParamTensors() = default;

  // Converted params: each rank keeps its partition of their values.
  virtual void convert(std::span<Param* const> params) = 0;
  // param.data is all of it from now on: what was gathered, or on one rank that gathers nothing (`shares_partition`)
  // the partition itself.
  virtual void make_whole(Param& param, bool shares_partition) = 0;
  // param.data is empty.
  virtual void free(Param& param) = 0;
  // The partition is taken from param.data, which a GatheredParameters context may have changed.
  virtual void update_partition(Param& param) = 0;

  virtual std::unique_ptr<ModelPass> make_model_pass(Process& process, Runtime& runtime,
                                                     Partitioner& partitioner) = 0;
  // `params`: those that it trains.
  virtual std::unique_ptr<OptimizerTensors> make_optimizer(std::span<Param* const> params) = 0;

  // A consolidated state dict: begun, each entry while it is gathered, and written to a file of 16 bits where a save
  // asked for it.
  virtual void begin_state_dict() = 0;
  virtual void add_to_state_dict(const std::string& name, const Param& param) = 0;
  virtual void write_state_dict() = 0;
};

}  // namespace zero3
