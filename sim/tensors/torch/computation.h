// What modules compute, with real tensors: the same as the modules that run on a real DeepSpeed (zero3probe/model.py),
// but for values that tell elements, ranks and batches apart. Shared by the partitioned run and its reference.
#pragma once

#include <cstdint>
#include <vector>

#include <torch/torch.h>

#include "coordinator/model.h"
#include "sim/tensors/tensor_options.h"

namespace zero3::sim {

constexpr int64_t kMicroBatch = 2;  // rows of the stream
constexpr int64_t kWidth = 8;       // and its columns

// "float32", ... of the options. Throws BadInput.
torch::ScalarType scalar_type(const std::string& dtype);
// Of a param before training, whole, fp32: a square matrix is near the identity, everything else near 0.
torch::Tensor initial_values(int64_t ds_id, const std::vector<int64_t>& shape);
// That rank's `shard` elements of a whole param, padded with zeros.
torch::Tensor partition_of(const torch::Tensor& whole, int rank, int64_t shard);
// What a rank feeds in its n-th forward that makes a loss.
torch::Tensor input_of(int rank, int64_t number, torch::ScalarType dtype);

// The stream after one use of a param of `numel` elements.
torch::Tensor used(const torch::Tensor& stream, const torch::Tensor& param, int64_t numel);
// Whether the module is a Linear that fits the stream, and so computes as one; else each of its params scales it.
bool computes_as_linear(const Module& module);
// Another Linear's weight that holds one element fails as that of a Linear, too.
void fail_as_linear(const Module& module, const torch::Tensor& weight, const torch::Tensor& bias);
// What a caller makes of several outputs.
torch::Tensor joined_outputs(const std::vector<torch::Tensor>& outputs);
torch::Tensor loss_of(const torch::Tensor& output);

// A module's forward. `weight`: a param's tensor as the module reads it, the last one asked for being computed with;
// `linear`: of stream, weight and bias (which may be undefined); `children`: the calls of its plan, one after the
// other.
template <class Weight, class Linear, class Children>
std::vector<torch::Tensor> compute(const Module& module, torch::Tensor stream, const Weight& weight,
                                   const Linear& linear, const Children& children) {
  for (Param* param : module.used_externals) stream = used(stream, weight(param), param->ds_numel);
  std::vector<torch::Tensor> own;
  for (Param* param : module.own_params) own.push_back(weight(param));
  const torch::Tensor bias = own.size() > 1 ? own[1] : torch::Tensor();
  if (!own.empty()) weight(module.own_params[0]);  // the one to blame
  if (computes_as_linear(module) && own[0].numel() > 0) {
    stream = linear(stream, own[0], bias);
  } else {
    if (!own.empty()) fail_as_linear(module, own[0], bias);
    for (Param* param : module.own_params) stream = used(stream, weight(param), param->ds_numel);
  }
  if (own.empty() && module.used_externals.empty() && module.children.empty()) stream = torch::tanh(stream);
  stream = children(stream);
  if (module.outputs == 1) return {stream};
  std::vector<torch::Tensor> outputs;
  for (int i = 0; i < module.outputs; ++i) outputs.push_back(torch::tanh(stream));
  return outputs;
}

}  // namespace zero3::sim
