#include "sim/tensors/torch/computation.h"

#include <algorithm>

#include "sim/bad_input.h"

namespace zero3::sim {
namespace {

// Elements from -1/64 to 1/64 that fp16 and bf16 hold exactly, and that another start and stride tell apart.
torch::Tensor ramp(const std::vector<int64_t>& shape, int64_t start, int64_t stride) {
  int64_t numel = 1;
  for (const int64_t extent : shape) numel *= extent;
  const torch::Tensor index = torch::arange(numel, torch::kInt64) * stride + start;
  return (torch::remainder(index, 61).to(torch::kFloat32) - 30).div(2048).view(shape);
}

}  // namespace

torch::ScalarType scalar_type(const std::string& dtype) {
  if (dtype == "float32") return torch::kFloat32;
  if (dtype == "bfloat16") return torch::kBFloat16;
  if (dtype == "float16") return torch::kFloat16;
  throw BadInput("--dtype " + dtype, "float32, bfloat16 or float16");
}

torch::Tensor initial_values(int64_t ds_id, const std::vector<int64_t>& shape) {
  const bool square = shape.size() == 2 && shape[0] == shape[1];
  torch::Tensor values = ramp(shape, 17 * ds_id, 7);
  return square ? values + torch::eye(shape[0]) : values;
}

torch::Tensor partition_of(const torch::Tensor& whole, int rank, int64_t shard) {
  torch::Tensor partition = torch::zeros({shard}, whole.dtype());
  const int64_t first = std::min(rank * shard, whole.numel());
  const int64_t length = std::min(shard, whole.numel() - first);
  if (length > 0) partition.narrow(0, 0, length).copy_(whole.flatten().narrow(0, first, length));
  return partition;
}

torch::Tensor input_of(int rank, int64_t number, torch::ScalarType dtype) {
  return (ramp({kMicroBatch, kWidth}, 29 * rank + 11 * number, 13) * 8 + 1).to(dtype);
}

bool computes_as_linear(const Module& module) {
  if (!module.is_linear || module.own_params.empty() || module.own_params.size() > 2) return false;
  const bool weight = module.own_param_names[0] == "weight" &&
                      module.own_params[0]->ds_shape == std::vector<int64_t>{kWidth, kWidth};
  return weight &&
         (module.own_params.size() == 1 || (module.own_param_names[1] == "bias" &&
                                            module.own_params[1]->ds_shape == std::vector<int64_t>{kWidth}));
}

void fail_as_linear(const Module& module, const torch::Tensor& weight, const torch::Tensor& bias) {
  const std::vector<int64_t>& shape = module.own_params.front()->ds_shape;
  if (!module.is_linear || shape.size() != 2 || weight.dim() != 1 || weight.numel() != 1) return;
  torch::linear(torch::ones({kMicroBatch, shape.back()}, weight.options()), weight, bias);
}

torch::Tensor used(const torch::Tensor& stream, const torch::Tensor& param, int64_t numel) {
  if (numel == 0) return stream * (1 + param.sum());
  // A partitioned one fails as any use of it would.
  if (param.numel() == 0) return stream * (1 + (torch::ones({numel}, param.options()) * param).mean());
  return stream * (1 + param.mean());
}

torch::Tensor joined_outputs(const std::vector<torch::Tensor>& outputs) {
  torch::Tensor total = outputs.front();
  for (size_t i = 1; i < outputs.size(); ++i) total = total + outputs[i];
  return total;
}

torch::Tensor loss_of(const torch::Tensor& output) { return output.to(torch::kFloat32).mean(); }

}  // namespace zero3::sim
