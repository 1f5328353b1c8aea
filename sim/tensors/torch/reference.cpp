#include "sim/tensors/torch/reference.h"

#include <algorithm>

#include "sim/tensors/torch/computation.h"
#include "sim/tensors/torch/optimizer.h"

namespace zero3::sim {

Reference::Reference(const Experiment& experiment, const Behaviour& behaviour, Model& model,
                     torch::ScalarType dtype, const TensorOptions& options)
    : experiment_(experiment),
      gradient_clipping_(
          experiment.settings.gradient_clipping.value_or(behaviour.gradients_clipped_by_default ? 1 : 0)),
      model_(model),
      dtype_(dtype),
      options_(options) {
  const Program& first = experiment.rank_programs.front();
  if (experiment.engines.size() != 1) why_not_ = "the program has several engines";
  if (!experiment.engines.front().with_optimizer) why_not_ = "the engine has no optimizer";
  if (std::ranges::any_of(experiment.rank_programs, [&](const Program& other) { return other != first; }))
    why_not_ = "ranks have programs of their own";
}

void Reference::make_weights() {
  if (!order_.empty()) return;
  std::vector<torch::Tensor> masters;
  for (Param* param : parameters_of(model_.module(experiment_.engines.front().root))) {
    const torch::Tensor value = initial_values(param->ds_id, param->ds_shape).to(dtype_);
    Weight& made = weights_[param->ds_id];
    made.value = value.clone().set_requires_grad(param->requires_grad);
    made.master = value.to(torch::kFloat32, false, true).set_requires_grad(true);
    order_.push_back(param);
    if (param->requires_grad) masters.push_back(made.master);
  }
  if (!masters.empty()) optimizer_ = make_torch_optimizer(masters, options_);
}

void Reference::ran(const Op& op, int rank) {
  if (!exists()) return;
  make_weights();
  switch (op.kind) {
    case OpKind::kForward: return op.grad_enabled ? forward(op, rank) : void();
    case OpKind::kBackward: return backward();
    case OpKind::kStep: return step(op);
    case OpKind::kLoadCheckpoint: why_not_ = "a checkpoint was loaded"; return;
    default: return;
  }
}

void Reference::forward(const Op& op, int rank) {
  losses_.clear();
  const PlannedCall root{.module = experiment_.engines.front().root, .children = op.plan};
  for (int other = 0; other < static_cast<int>(experiment_.rank_programs.size()); ++other) {
    torch::Tensor stream = input_of(other, batches_, dtype_);
    if (experiment_.input_requires_grad) stream.set_requires_grad(true);
    losses_.push_back(loss_of(joined_outputs(call(root, stream))));
  }
  ++batches_;
  last_loss_ = losses_[static_cast<size_t>(rank)].item<double>();
}

std::vector<torch::Tensor> Reference::call(const PlannedCall& call, torch::Tensor stream) {
  const auto weight = [&](Param* param) { return weights_.at(param->ds_id).value; };
  const auto linear = [](const torch::Tensor& input, const torch::Tensor& matrix, const torch::Tensor& bias) {
    return torch::linear(input, matrix, bias);
  };
  return compute(model_.module(call.module), std::move(stream), weight, linear,
                 [&](const torch::Tensor& value) { return call_in_turn(call.children, value); });
}

torch::Tensor Reference::call_in_turn(const std::vector<PlannedCall>& calls, torch::Tensor stream) {
  for (const PlannedCall& one : calls) {
    const torch::Tensor result = joined_outputs(call(one, one.detach_input ? stream.detach() : stream));
    if (!one.discard_output) stream = result;
  }
  return stream;
}

void Reference::backward() {
  std::vector<torch::Tensor> values;
  std::vector<Weight*> reached;
  for (const Param* param : order_) {
    if (!param->requires_grad) continue;
    reached.push_back(&weights_.at(param->ds_id));
    values.push_back(reached.back()->value);
  }
  const auto ranks = static_cast<int64_t>(losses_.size());
  std::vector<torch::Tensor> sums(values.size());
  for (const torch::Tensor& loss : losses_) {
    const torch::Tensor scaled = loss / experiment_.settings.gradient_accumulation_steps;
    const auto gradients = torch::autograd::grad({scaled}, values, {}, false, false, true);
    for (size_t i = 0; i < sums.size(); ++i) {
      if (!gradients[i].defined()) continue;
      const torch::Tensor part = gradients[i] / ranks;
      sums[i] = sums[i].defined() ? sums[i] + part : part;
    }
  }
  losses_.clear();
  for (size_t i = 0; i < sums.size(); ++i) {
    torch::Tensor& gradient = reached[i]->gradient;
    if (sums[i].defined()) gradient = gradient.defined() ? gradient + sums[i] : sums[i];
  }
}

void Reference::step(const Op& op) {
  if (op.overflow) why_not_ = "gradients overflowed";
  if (++micro_steps_ % experiment_.settings.gradient_accumulation_steps != 0) return;
  const double scale = clipping_scale_of_all();
  for (const Param* param : order_) {
    Weight& weight = weights_.at(param->ds_id);
    weight.master.mutable_grad() =
        weight.gradient.defined() ? weight.gradient.to(torch::kFloat32) * scale : torch::Tensor();
    weight.gradient = torch::Tensor();
  }
  if (optimizer_) optimizer_->step();
  const torch::NoGradGuard no_grad;
  for (const Param* param : order_) {
    if (param->requires_grad) weights_.at(param->ds_id).value.copy_(weights_.at(param->ds_id).master);
  }
}

// The norm is summed by ranks' partitions, as ranks do: to the bit.
double Reference::clipping_scale_of_all() const {
  const auto ranks = static_cast<int>(experiment_.rank_programs.size());
  double sum = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<torch::Tensor> gradients;
    for (const Param* param : order_) {
      const torch::Tensor& gradient = weights_.at(param->ds_id).gradient;
      if (gradient.defined())
        gradients.push_back(partition_of(gradient.to(torch::kFloat32), rank, param->partition_numel(ranks)));
    }
    sum += squared_norm(gradients);
  }
  return clipping_scale(sum, gradient_clipping_);
}

}  // namespace zero3::sim
