// The optimizers of --optimizer, LibTorch's own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "sim/tensors/tensor_options.h"

namespace zero3::sim {

// Of fp32 tensors that require grad.
std::unique_ptr<torch::optim::Optimizer> make_torch_optimizer(const std::vector<torch::Tensor>& params,
                                                              const TensorOptions& options);
// Of one rank's gradients, fp32, each param's taken by itself.
double squared_norm(const std::vector<torch::Tensor>& gradients);
// What gradients of all ranks are multiplied by (unscale_and_clip_grads); `clipping` 0: 1.
double clipping_scale(double squared_norm, double clipping);
// The states it keeps of one of them, by name; none before its first update.
std::vector<std::pair<std::string, torch::Tensor>> states_of(torch::optim::Optimizer& optimizer,
                                                             const torch::Tensor& param);
void restore_states(torch::optim::Optimizer& optimizer, const torch::Tensor& param,
                    const std::vector<std::pair<std::string, torch::Tensor>>& states);

}  // namespace zero3::sim
