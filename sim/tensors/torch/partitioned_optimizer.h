// The optimizer of one engine over this rank's partitions: fp32 copies of them, a buffer of their gradients, and
// checkpoints.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "sim/tensors/torch/optimizer.h"
#include "sim/tensors/torch/torch_tensors.h"

namespace zero3::sim {

class PartitionedOptimizer final : public OptimizerTensors {
 public:
  PartitionedOptimizer(TorchTensors& tensors, std::span<Param* const> params);

  void add_gradients(std::span<Param* const> params, bool first_of_cycle) override;
  void drop_gradients() override;
  void overflow() override;
  void begin_update() override;
  void update(double gradient_clipping) override;
  void save_checkpoint() override;
  void load_checkpoint() override;

 private:
  struct Trained {
    Param* param = nullptr;
    torch::Tensor master;    // fp32, this rank's elements
    torch::Tensor gradient;  // the buffer's part, in the params' dtype
    bool arrived = false;    // in this cycle
    bool in_last = false;    // by the last backward
  };

  std::filesystem::path file() const;
  NamedTensors states() const;

  TorchTensors& tensors_;
  std::vector<Param*> params_;  // the engine's, trained or not
  std::vector<Trained> trained_;
  std::map<int, size_t> place_;  // in `trained_`, by ds_id
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  NamedTensors saved_;  // where no file is written
};

}  // namespace zero3::sim
