#include "sim/tensors/torch/partitioned_optimizer.h"

#include <limits>
#include <string>

#include <fmt/format.h>

namespace zero3::sim {

PartitionedOptimizer::PartitionedOptimizer(TorchTensors& tensors, std::span<Param* const> params)
    : tensors_(tensors), params_(params.begin(), params.end()) {
  std::vector<torch::Tensor> masters;
  for (Param* param : params) {
    if (!param->requires_grad) continue;
    const torch::Tensor& partition = tensors_.of(*param).partition;
    place_[param->ds_id] = trained_.size();
    trained_.push_back({.param = param,
                        .master = partition.to(torch::kFloat32, false, true).set_requires_grad(true),
                        .gradient = torch::zeros_like(partition)});
    masters.push_back(trained_.back().master);
  }
  if (masters.empty()) return;
  optimizer_ = make_torch_optimizer(masters, tensors_.options());
  if (!tensors_.behaviour().optimizer_steps_at_start) return;
  for (const torch::Tensor& master : masters) master.mutable_grad() = torch::zeros_like(master);
  optimizer_->step();
}

void PartitionedOptimizer::add_gradients(std::span<Param* const> params, bool first_of_cycle) {
  const torch::NoGradGuard no_grad;
  for (Trained& trained : trained_) {
    trained.arrived = trained.arrived && !first_of_cycle;
    trained.in_last = false;
  }
  for (Param* param : params) {
    const torch::Tensor gradient = tensors_.take_reduced_gradient(*param);
    const auto place = place_.find(param->ds_id);
    if (place == place_.end()) continue;
    Trained& trained = trained_[place->second];
    trained.arrived = trained.in_last = true;
    if (first_of_cycle) {
      trained.gradient.copy_(gradient);
    } else {
      trained.gradient.add_(gradient);
    }
  }
}

void PartitionedOptimizer::drop_gradients() {
  for (Trained& trained : trained_) trained.gradient.zero_();
}

void PartitionedOptimizer::overflow() {
  for (Trained& trained : trained_) {
    if (trained.arrived) trained.gradient.fill_(std::numeric_limits<float>::infinity());
  }
}

// v1 takes zeros for what the cycle's last backward did not bring, whatever came before it (seen on v0.5.10).
void PartitionedOptimizer::begin_update() {
  if (tensors_.behaviour().coordinator == Coordinator::kPrefetch) {
    for (Trained& trained : trained_) {
      if (!trained.in_last) trained.gradient.zero_();
    }
  }
  std::vector<torch::Tensor> gradients;
  for (const Trained& trained : trained_) gradients.push_back(trained.gradient.to(torch::kFloat32));
  tensors_.set_squared_norm(squared_norm(gradients));
}

void PartitionedOptimizer::update(double gradient_clipping) {
  const double scale = clipping_scale(tensors_.squared_norm(), gradient_clipping);
  for (Trained& trained : trained_) {
    trained.master.mutable_grad() = trained.gradient.to(torch::kFloat32) * scale;
    trained.arrived = false;
  }
  if (optimizer_) optimizer_->step();
  tensors_.updated();
  const torch::NoGradGuard no_grad;
  for (const Trained& trained : trained_) tensors_.of(*trained.param).partition.copy_(trained.master);
}

// DeepSpeed's name of it.
std::filesystem::path PartitionedOptimizer::file() const {
  return std::filesystem::path(tensors_.options().save_dir) /
         fmt::format("zero_pp_rank_{}_mp_rank_00_optim_states.pt", tensors_.rank());
}

NamedTensors PartitionedOptimizer::states() const {
  NamedTensors all;
  for (const Trained& trained : trained_) {
    all.emplace_back("fp32." + trained.param->name, trained.master.detach().clone());
    for (const auto& [name, value] : states_of(*optimizer_, trained.master))
      all.emplace_back(fmt::format("{}.{}", name, trained.param->name), value);
  }
  return all;
}

void PartitionedOptimizer::save_checkpoint() {
  saved_ = states();
  if (tensors_.options().save_dir.empty()) return;
  write_tensors(file(), saved_);
  tensors_.wrote(file().string());
}

void PartitionedOptimizer::load_checkpoint() {
  const bool from_file = !tensors_.options().save_dir.empty() && std::filesystem::exists(file());
  const NamedTensors loaded = from_file ? read_tensors(file()) : saved_;
  std::map<std::string, torch::Tensor> by_name(loaded.begin(), loaded.end());
  const torch::NoGradGuard no_grad;
  for (const Trained& trained : trained_) {
    const auto master = by_name.find("fp32." + trained.param->name);
    if (master == by_name.end()) continue;
    trained.master.copy_(master->second);
    NamedTensors own;
    for (const char* name : {"exp_avg", "exp_avg_sq", "step"}) {
      const auto state = by_name.find(fmt::format("{}.{}", name, trained.param->name));
      if (state != by_name.end()) own.emplace_back(name, state->second);
    }
    restore_states(*optimizer_, trained.master, own);
    tensors_.of(*trained.param).partition.copy_(trained.master);
  }
  // load_state_dict copies over every param.data, whatever it holds.
  for (Param* param : params_) torch::autograd::impl::bump_version(tensors_.of(*param).variable);
}

}  // namespace zero3::sim
