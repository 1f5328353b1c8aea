// Runs a plan with LibTorch: modules compute, autograd is LibTorch's own, and DeepSpeed's hooks are nodes of its graph.
// Nothing here says in which order hooks fire in backward; ForwardPass, which does, has to agree.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "coordinator/model_pass.h"

namespace zero3::sim {

class TorchTensors;

class TorchPass final : public ModelPass {
 public:
  TorchPass(Process& process, Runtime& runtime, Partitioner& partitioner, TorchTensors& tensors)
      : ModelPass(process, runtime, partitioner), tensors_(tensors) {}

  Raised run(std::span<const Call> calls, bool grad_enabled, bool input_requires_grad,
             bool in_engine) override;
  Raised backward() override;
  bool has_loss() const override { return loss_.defined() && loss_.requires_grad(); }

  // Of a backward that this pass runs: autograd has accumulated the gradient.
  void accumulate(Param& param, bool gradient);

 private:
  using Outputs = std::vector<torch::Tensor>;

  // Runs it until it raises, as DeepSpeed or as torch does.
  Raised guarded(const std::function<void()>& run);
  Raised of_torch(const std::string& text) const;
  torch::Tensor call_in_turn(std::span<const Call> calls, torch::Tensor stream);
  Outputs call_checkpointed(const Call& call, const torch::Tensor& stream);
  Outputs call_reentrant(const Call& call, const torch::Tensor& stream);
  torch::Tensor recompute_reentrant(const Call& call, const torch::Tensor& input, const Outputs& gradients);
  Outputs call_region(const Call& call, const torch::Tensor& stream);
  Outputs call_module(const Call& call, torch::Tensor stream);
  void pre_hooks(Module& module, torch::Tensor& stream);
  void forward_hooks(Module& module, Outputs& outputs);
  torch::Tensor read(Param* param);
  torch::Tensor linear(const torch::Tensor& stream, const torch::Tensor& weight,
                       const torch::Tensor& bias) const;
  torch::Tensor wrap_input(Module& module, ParameterOffload* owner, const torch::Tensor& stream);
  void wrap_outputs(Module& module, ParameterOffload* owner, Outputs& outputs);

  TorchTensors& tensors_;
  torch::Tensor loss_;
  Param* read_ = nullptr;  // the param that is being computed with
  bool in_engine_ = false;
  int backward_depth_ = 0;
};

}  // namespace zero3::sim
