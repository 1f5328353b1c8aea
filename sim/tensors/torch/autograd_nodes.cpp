#include "sim/tensors/torch/autograd_nodes.h"

#include <algorithm>
#include <utility>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

namespace zero3::sim {
namespace {

class CallbackNode final : public torch::autograd::Node {
 public:
  explicit CallbackNode(std::function<TensorList(TensorList)> backward) : backward_(std::move(backward)) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].defined()) gradients[i] = input_metadata(i).zeros_like();
    }
    return backward_(std::move(gradients));
  }

 private:
  std::function<TensorList(TensorList)> backward_;
};

class Zero3LinearNode final : public torch::autograd::Node {
 public:
  Zero3LinearNode(const torch::Tensor& input, const torch::Tensor& weight)
      : input_(input, false), weight_(weight, false) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    const torch::Tensor gradient =
        gradients[0].defined() ? gradients[0] : torch::Tensor(input_metadata(0).zeros_like());
    const torch::Tensor input = input_.unpack();
    const torch::Tensor weight = weight_.unpack();
    torch::autograd::variable_list results(num_outputs());
    if (task_should_compute_output(0)) results[0] = gradient.matmul(weight);
    if (task_should_compute_output(1)) results[1] = gradient.t().matmul(input);
    if (results.size() > 2 && task_should_compute_output(2)) results[2] = gradient.sum(0);
    return results;
  }

  void release_variables() override {
    input_.reset_data();
    weight_.reset_data();
  }

 private:
  torch::autograd::SavedVariable input_;
  torch::autograd::SavedVariable weight_;
};

bool wants_grad(const TensorList& tensors) {
  return torch::GradMode::is_enabled() &&
         std::ranges::any_of(tensors, [](const torch::Tensor& tensor) { return tensor.requires_grad(); });
}

}  // namespace

TensorList behind_node(const TensorList& inputs, const TensorList& outputs,
                       std::function<TensorList(TensorList)> backward) {
  TensorList made;
  for (const torch::Tensor& output : outputs) made.push_back(output.variable_data());
  if (!wants_grad(inputs)) return made;
  const auto node = std::make_shared<CallbackNode>(std::move(backward));
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  for (torch::Tensor& output : made) torch::autograd::set_history(output, node);
  return made;
}

torch::Tensor watched(const torch::Tensor& tensor, std::function<void()> hook) {
  return behind_node({tensor}, {tensor},
                     [hook = std::move(hook)](TensorList gradients) {
                       hook();
                       return gradients;
                     })
      .front();
}

torch::Tensor zero3_linear(const torch::Tensor& input, const torch::Tensor& weight,
                           const torch::Tensor& bias) {
  TensorList inputs = {input, weight};
  if (bias.defined()) inputs.push_back(bias);
  torch::Tensor output;
  {
    const torch::NoGradGuard no_grad;
    output = bias.defined() ? torch::addmm(bias, input, weight.t()) : input.matmul(weight.t());
  }
  if (!wants_grad(inputs)) return output;
  const auto node = std::make_shared<Zero3LinearNode>(input, weight);
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  torch::autograd::set_history(output, node);
  return output;
}

}  // namespace zero3::sim
