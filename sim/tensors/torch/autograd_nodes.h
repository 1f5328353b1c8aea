// Nodes that DeepSpeed and torch.utils.checkpoint put into autograd's graph.
#pragma once

#include <functional>
#include <vector>

#include <torch/torch.h>

namespace zero3::sim {

using TensorList = std::vector<torch::Tensor>;

// The same tensors behind a node of their own, which calls `backward` with their gradients, zeros for missing ones, and
// hands on what that returns: one gradient for each of `inputs`. Where none of the inputs requires grad, or grad is
// disabled, they come back as they are, without history.
TensorList behind_node(const TensorList& inputs, const TensorList& outputs,
                       std::function<TensorList(TensorList gradients)> backward);
// The same of tensors that a hook watches.
torch::Tensor watched(const torch::Tensor& tensor, std::function<void()> hook);

// DeepSpeed's own Linear (LinearFunctionForZeroStage3), which keeps its weight as it is and hands gradients on in
// another order. `bias` may be undefined.
torch::Tensor zero3_linear(const torch::Tensor& input, const torch::Tensor& weight,
                           const torch::Tensor& bias);

}  // namespace zero3::sim
