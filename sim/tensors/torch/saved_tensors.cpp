#include "sim/tensors/torch/saved_tensors.h"

#include <utility>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

namespace zero3::sim {
namespace {

using MakeHooks = std::function<std::unique_ptr<torch::autograd::SavedVariableHooks>()>;
thread_local std::vector<MakeHooks> hooks_in_force;

// torch.autograd.graph.saved_tensors_hooks is Python's own; here the engine answers for it.
class HookingEngine final : public torch::autograd::Engine {
 public:
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return hooks_in_force.empty() || !hooks_in_force.back() ? nullptr : hooks_in_force.back()();
  }
};

torch::autograd::Engine& hooking_engine() {
  static auto* engine = new HookingEngine;  // its threads outlive main
  return *engine;
}

class HooksInForce {
 public:
  explicit HooksInForce(MakeHooks make) { hooks_in_force.push_back(std::move(make)); }
  ~HooksInForce() { hooks_in_force.pop_back(); }
  HooksInForce(const HooksInForce&) = delete;
  HooksInForce& operator=(const HooksInForce&) = delete;
};

}  // namespace

// Saved as the region ran first: only its number is kept.
class SavedInRegion final : public torch::autograd::SavedVariableHooks {
 public:
  explicit SavedInRegion(std::shared_ptr<CheckpointedRegion> region) : region_(std::move(region)) {}
  void call_pack_hook(const at::Tensor&) override { number_ = region_->saved_++; }
  at::Tensor call_unpack_hook() override { return region_->saved_tensor(number_); }

 private:
  std::shared_ptr<CheckpointedRegion> region_;
  size_t number_ = 0;
};

// Saved as it runs again.
class SavedAgain final : public torch::autograd::SavedVariableHooks {
 public:
  explicit SavedAgain(CheckpointedRegion& region) : region_(region) {}
  void call_pack_hook(const at::Tensor& tensor) override {
    tensor_ = tensor.detach();
    region_.tensors_.push_back(tensor_);
    if (!region_.whole_ && region_.tensors_.size() == region_.saved_) throw StopRecomputation{};
  }
  at::Tensor call_unpack_hook() override { return tensor_; }

 private:
  CheckpointedRegion& region_;
  at::Tensor tensor_;
};

CheckpointedRegion::CheckpointedRegion(const torch::Tensor& input, bool whole, Recompute recompute)
    : whole_(whole), recompute_(std::move(recompute)) {
  if (whole) {
    input_ = input;
  } else {
    saved_input_ = torch::autograd::SavedVariable(input, false);
  }
}

void CheckpointedRegion::run(const std::function<void()>& forward) {
  const HooksInForce hooks([this] { return std::make_unique<SavedInRegion>(shared_from_this()); });
  forward();
}

const torch::Tensor& CheckpointedRegion::saved_tensor(size_t number) {
  if (!recomputed_) recompute();
  return tensors_.at(number);
}

void CheckpointedRegion::recompute() {
  const torch::Tensor input = whole_ ? input_ : saved_input_.unpack();
  recomputed_ = true;
  const torch::AutoGradMode grad(true);
  const HooksInForce hooks([this] { return std::make_unique<SavedAgain>(*this); });
  try {
    recompute_(input);
  } catch (const StopRecomputation&) {  // NOLINT(bugprone-empty-catch): it has what it wanted
  }
}

void hook_saved_tensors() { torch::autograd::set_default_engine_stub(&hooking_engine); }

}  // namespace zero3::sim
