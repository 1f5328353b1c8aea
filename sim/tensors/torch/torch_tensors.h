// The params of one rank as LibTorch tensors: partitions, padded; whole data while gathered; and what collectives move.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "sim/tensors/rank_tensors.h"
#include "sim/tensors/torch/checkpoint_file.h"
#include "sim/tensors/torch/reference.h"

namespace zero3::sim {

class TorchPass;

struct TorchParam {
  Param* param = nullptr;
  torch::Tensor variable;   // what modules use: whole, or what a release leaves of a partitioned one
  torch::Tensor partition;  // this rank's elements, padded
  torch::Tensor arrived;    // gathered, and not yet taken
  torch::Tensor awaited;    // whole already, but its elements are still on their way
  // The node that autograd accumulates the gradient in; kept, as DeepSpeed keeps it, because of its hook.
  std::shared_ptr<torch::autograd::Node> accumulator;
};

class TorchTensors final : public RankTensors {
 public:
  TorchTensors(const Experiment& experiment, const Behaviour& behaviour, int rank,
               const TensorOptions& options);
  ~TorchTensors() override;

  void convert(std::span<Param* const> params) override;
  void make_whole(Param& param, bool shares_partition) override;
  void free(Param& param) override;
  void update_partition(Param& param) override;
  std::unique_ptr<ModelPass> make_model_pass(Process& process, Runtime& runtime,
                                             Partitioner& partitioner) override;
  std::unique_ptr<OptimizerTensors> make_optimizer(std::span<Param* const> params) override;
  void begin_state_dict() override { state_dict_.clear(); }
  void add_to_state_dict(const std::string& name, const Param& param) override;
  void write_state_dict() override;

  Buffers begin(const Collective& collective) override;
  void reduce(const Collective& collective, std::span<const std::byte> of_all) override;
  void end(const Collective& collective, size_t index) override;

  void begin_run(Model& model) override;
  void ran(const Op& op, size_t statement) override;
  TensorReport end_run() override;

  TorchParam& of(const Param& param) { return params_.at(param.ds_id); }
  // The gradient's part for this rank after a backward, averaged, in the params' dtype; zeros for what has none.
  torch::Tensor take_reduced_gradient(Param& param);

  int rank() const { return rank_; }
  const Behaviour& behaviour() const { return behaviour_; }
  torch::ScalarType dtype() const { return dtype_; }
  const TensorOptions& options() const { return options_; }
  const Experiment& experiment() const { return experiment_; }
  // Forwards that made a loss so far: the number of the next batch.
  int64_t batches() const { return batches_; }
  void add_loss(double loss) {
    losses_.push_back(loss);
    ++batches_;
  }
  // This rank's, until the ranks have summed theirs; then that of all.
  void set_squared_norm(double own) { squared_norm_ = own; }
  double squared_norm() const { return squared_norm_; }
  void wrote(const std::string& file) { files_.push_back(file); }
  void updated() { ++updates_; }
  // Whose backward runs: it hears of accumulated gradients. Hands back the one before.
  TorchPass* set_running(TorchPass* pass) { return std::exchange(running_, pass); }

 private:
  using Key = std::pair<ProcessGroup, size_t>;
  struct Open {  // between begin() and end()
    torch::Tensor send;
    torch::Tensor receive;
  };

  torch::Tensor whole_gradient(const TorchParam& param) const;
  void take_gathered(const Collective& collective, const torch::Tensor& received);
  void take_reduced(const Collective& collective, const torch::Tensor& received);
  std::span<std::byte> bytes_of(const torch::Tensor& tensor) const;
  void compare_weights(TensorReport& report) const;

  Experiment experiment_;
  Behaviour behaviour_;
  int rank_;
  int world_size_;
  TensorOptions options_;
  torch::ScalarType dtype_;
  std::map<int, TorchParam> params_;      // by ds_id
  std::map<int, torch::Tensor> reduced_;  // gradients' parts, by ds_id
  std::map<Key, Open> open_;
  NamedTensors state_dict_;
  TorchPass* running_ = nullptr;
  double squared_norm_ = 0;
  int64_t batches_ = 0;
  int64_t updates_ = 0;
  std::vector<double> losses_;
  std::vector<std::string> files_;
  std::vector<TensorReport::Loss> compared_losses_;
  std::unique_ptr<Reference> reference_;
};

}  // namespace zero3::sim
