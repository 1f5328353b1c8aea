#include "sim/tensors/torch/optimizer.h"

#include <cmath>
#include <utility>

#include "sim/bad_input.h"

namespace zero3::sim {
namespace {

// LibTorch 1.13 files states under the address as text, later ones under the address itself.
template <class States>
auto key_in(const States&, const torch::Tensor& param) {
  using Key = typename States::key_type;
  if constexpr (std::is_same_v<Key, std::string>) {
    return c10::guts::to_string(param.unsafeGetTensorImpl());
  } else {
    return static_cast<Key>(param.unsafeGetTensorImpl());
  }
}

}  // namespace

std::unique_ptr<torch::optim::Optimizer> make_torch_optimizer(const std::vector<torch::Tensor>& params,
                                                              const TensorOptions& options) {
  if (options.optimizer == "sgd")
    return std::make_unique<torch::optim::SGD>(params, torch::optim::SGDOptions(options.learning_rate));
  if (options.optimizer == "adam")
    return std::make_unique<torch::optim::Adam>(params, torch::optim::AdamOptions(options.learning_rate));
  throw BadInput("--optimizer " + options.optimizer, "sgd or adam");
}

double squared_norm(const std::vector<torch::Tensor>& gradients) {
  double sum = 0;
  for (const torch::Tensor& gradient : gradients) {
    const auto norm = gradient.to(torch::kFloat64).norm().item<double>();
    sum += norm * norm;
  }
  return sum;
}

double clipping_scale(double squared_norm, double clipping) {
  if (clipping <= 0) return 1;
  const double excess = (std::sqrt(squared_norm) + 1e-6) / clipping;
  return excess > 1 ? 1 / excess : 1;
}

std::vector<std::pair<std::string, torch::Tensor>> states_of(torch::optim::Optimizer& optimizer,
                                                             const torch::Tensor& param) {
  const auto& states = optimizer.state();
  const auto found = states.find(key_in(states, param));
  if (found == states.end()) return {};
  const auto* adam = dynamic_cast<const torch::optim::AdamParamState*>(found->second.get());
  if (adam == nullptr) return {};
  return {{"exp_avg", adam->exp_avg().clone()},
          {"exp_avg_sq", adam->exp_avg_sq().clone()},
          {"step", torch::tensor(adam->step())}};
}

void restore_states(torch::optim::Optimizer& optimizer, const torch::Tensor& param,
                    const std::vector<std::pair<std::string, torch::Tensor>>& states) {
  auto& all = optimizer.state();
  all.erase(key_in(all, param));
  if (states.empty()) return;
  auto restored = std::make_unique<torch::optim::AdamParamState>();
  for (const auto& [name, value] : states) {
    if (name == "exp_avg") restored->exp_avg(value.clone());
    if (name == "exp_avg_sq") restored->exp_avg_sq(value.clone());
    if (name == "step") restored->step(value.item<int64_t>());
  }
  all[key_in(all, param)] = std::move(restored);
}

}  // namespace zero3::sim
