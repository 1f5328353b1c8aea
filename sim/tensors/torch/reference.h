// The same training without DeepSpeed: one model that nobody partitions, which sees the batches of all ranks.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "coordinator/behaviour.h"
#include "coordinator/model.h"
#include "sim/program.h"
#include "sim/tensors/tensor_options.h"

namespace zero3::sim {

class Reference {
 public:
  // `model`: the rank's; it must outlive this. `dtype`: of params and gradients; the optimizer's are fp32.
  Reference(const Experiment& experiment, const Behaviour& behaviour, Model& model, torch::ScalarType dtype,
            const TensorOptions& options);

  // Once the params have their ids; nothing if that was done.
  void make_weights();

  // An operation that all ranks have run. `rank`: whose loss it is that is looked at.
  void ran(const Op& op, int rank);
  // False: the program has something that has no meaning without DeepSpeed.
  bool exists() const { return why_not_.empty(); }
  const std::string& why_not() const { return why_not_; }
  double last_loss() const { return last_loss_; }
  torch::Tensor weight(const Param& param) const { return weights_.at(param.ds_id).value.detach(); }

 private:
  struct Weight {
    torch::Tensor master;    // fp32
    torch::Tensor value;     // what modules use
    torch::Tensor gradient;  // of the accumulation cycle, averaged over ranks; undefined: none
  };

  void forward(const Op& op, int rank);
  void backward();
  void step(const Op& op);
  double clipping_scale_of_all() const;
  torch::Tensor call_in_turn(const std::vector<PlannedCall>& calls, torch::Tensor stream);
  std::vector<torch::Tensor> call(const PlannedCall& call, torch::Tensor stream);

  Experiment experiment_;
  double gradient_clipping_;
  Model& model_;
  torch::ScalarType dtype_;
  TensorOptions options_;
  std::string why_not_;
  std::map<int, Weight> weights_;  // by ds_id
  std::vector<const Param*> order_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::vector<torch::Tensor> losses_;  // of the forward that backward follows, by rank
  double last_loss_ = 0;
  int64_t batches_ = 0;
  int micro_steps_ = 0;
};

}  // namespace zero3::sim
