#include "sim/tensors/torch/torch_pass.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "sim/tensors/torch/autograd_nodes.h"
#include "sim/tensors/torch/computation.h"
#include "sim/tensors/torch/saved_tensors.h"
#include "sim/tensors/torch/torch_tensors.h"

namespace zero3::sim {
namespace {

constexpr const char* kNoGradFn = "element 0 of tensors does not require grad and does not have a grad_fn";
constexpr const char* kNothingRecomputed =
    "none of output has requires_grad=True, this checkpoint() is not necessary";

// Carries a failure through autograd to whoever called it.
class RaisedInside final : public std::exception {
 public:
  explicit RaisedInside(Raised raised) : raised_(std::make_shared<Raised>(std::move(raised))) {}
  const char* what() const noexcept override { return (*raised_)->text.c_str(); }
  Raised take() const { return std::move(*raised_); }

 private:
  std::shared_ptr<Raised> raised_;  // exceptions are copied
};

void check(Raised raised) {
  if (raised) throw RaisedInside(std::move(raised));
}

bool starts_with(const std::string& text, std::string_view start) { return text.rfind(start, 0) == 0; }

class DeeperBackward {
 public:
  explicit DeeperBackward(int& depth) : depth_(depth) { ++depth_; }
  ~DeeperBackward() { --depth_; }
  DeeperBackward(const DeeperBackward&) = delete;
  DeeperBackward& operator=(const DeeperBackward&) = delete;

 private:
  int& depth_;
};

}  // namespace

// What LibTorch raises itself, as the model tells it.
Raised TorchPass::of_torch(const std::string& text) const {
  FailureKind kind = FailureKind::kEmptyWeight;
  if (starts_with(text, "Trying to backward through the graph a second time"))
    kind = FailureKind::kNoGradient;
  else if (starts_with(text, "one of the variables needed for gradient computation has been modified"))
    kind = FailureKind::kWeightModified;
  return raise(kind, "RuntimeError", text,
               read_ == nullptr ? std::vector<const Param*>{} : std::vector<const Param*>{read_});
}

Raised TorchPass::guarded(const std::function<void()>& run) {
  try {
    run();
    return nullptr;
  } catch (const RaisedInside& raised) {
    return raised.take();
  } catch (const c10::Error& error) {
    return of_torch(error.what_without_backtrace());
  }
}

Raised TorchPass::run(std::span<const Call> calls, bool grad_enabled, bool input_requires_grad,
                      bool in_engine) {
  const torch::AutoGradMode grad(grad_enabled);
  const bool keeps_loss = grad_enabled && in_engine;
  if (keeps_loss) loss_ = torch::Tensor();
  in_engine_ = in_engine;
  Raised raised = guarded([&] {
    torch::Tensor stream = input_of(tensors_.rank(), tensors_.batches(), tensors_.dtype());
    stream.set_requires_grad(input_requires_grad);
    const torch::Tensor output = call_in_turn(calls, stream);
    if (!keeps_loss) return;
    loss_ = loss_of(output);
    tensors_.add_loss(loss_.item<double>());
  });
  in_engine_ = in_engine && raised;  // as the model leaves it
  return raised;
}

// Each call takes what the one before it returned.
torch::Tensor TorchPass::call_in_turn(std::span<const Call> calls, torch::Tensor stream) {
  for (const Call& call : calls) {
    const Outputs results = call_checkpointed(call, call.detach_input ? stream.detach() : stream);
    if (!call.discard_output) stream = joined_outputs(results);
  }
  return stream;
}

TorchPass::Outputs TorchPass::call_checkpointed(const Call& call, const torch::Tensor& stream) {
  if (call.checkpointing == Checkpointing::kNone || !torch::GradMode::is_enabled())
    return call_module(call, stream);
  return call.checkpointing == Checkpointing::kReentrant ? call_reentrant(call, stream)
                                                         : call_region(call, stream);
}

// torch.utils.checkpoint, use_reentrant=True.
TorchPass::Outputs TorchPass::call_reentrant(const Call& call, const torch::Tensor& stream) {
  Outputs outputs;
  {
    const torch::NoGradGuard no_grad;
    outputs = call_module(call, stream);
  }
  const auto saved = std::make_shared<torch::autograd::SavedVariable>(stream, false);
  return behind_node({stream}, outputs, [this, call, saved](TensorList gradients) -> TensorList {
    const torch::Tensor input = saved->unpack();
    saved->reset_data();
    return {recompute_reentrant(call, input, gradients)};
  });
}

// The region runs again with grad, on a detached input, and a backward of its own runs inside this one.
torch::Tensor TorchPass::recompute_reentrant(const Call& call, const torch::Tensor& input,
                                             const Outputs& gradients) {
  const torch::AutoGradMode grad(true);
  const torch::Tensor detached = input.detach().set_requires_grad(input.requires_grad());
  const Outputs outputs = call_module(call, detached);
  std::vector<torch::Tensor> roots;
  std::vector<torch::Tensor> root_gradients;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].requires_grad()) continue;
    roots.push_back(outputs[i]);
    root_gradients.push_back(gradients[i]);
  }
  if (roots.empty()) check(raise(FailureKind::kNoGradient, "RuntimeError", kNothingRecomputed));
  torch::autograd::backward(roots, root_gradients);
  return detached.grad();
}

// use_reentrant=False.
TorchPass::Outputs TorchPass::call_region(const Call& call, const torch::Tensor& stream) {
  const bool whole = call.checkpointing == Checkpointing::kWholeRecompute;
  Outputs outputs;
  const auto again = [this, call, whole](const torch::Tensor& input) {
    try {
      call_module(call, input);
    } catch (const RaisedInside& raised) {
      check(whole ? from_saved_tensor_hook(raised.take()) : raised.take());
    }
  };
  const auto region = std::make_shared<CheckpointedRegion>(stream, whole, again);
  region->run([&] { outputs = call_module(call, stream); });
  return outputs;
}

TorchPass::Outputs TorchPass::call_module(const Call& call, torch::Tensor stream) {
  Module& module = *call.module;
  pre_hooks(module, stream);
  const bool hooked = module.is_leaf && torch::GradMode::is_enabled() && has_full_backward_hook(module);
  const bool at_input = hooked && stream.requires_grad();
  const auto leaf_hook = [this, &module] { check(reduce_leaf_module_grads(module)); };
  if (at_input) stream = watched(stream, leaf_hook);
  Outputs outputs = compute(
      module, stream, [this](Param* param) { return read(param); },
      [this](const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias) {
        return linear(input, weight, bias);
      },
      [this, &call](const torch::Tensor& value) { return call_in_turn(call.children, value); });
  read_ = nullptr;
  forward_hooks(module, outputs);
  if (!hooked || at_input) return outputs;
  return behind_node(outputs, outputs, [leaf_hook](TensorList gradients) {
    leaf_hook();
    return gradients;
  });
}

torch::Tensor TorchPass::read(Param* param) {
  check(read_weight(param, in_engine_));
  read_ = param;
  return tensors_.of(*param).variable;
}

torch::Tensor TorchPass::linear(const torch::Tensor& stream, const torch::Tensor& weight,
                                const torch::Tensor& bias) const {
  return runtime().behaviour.linear_is_wrapped ? zero3_linear(stream, weight, bias)
                                               : torch::linear(stream, weight, bias);
}

void TorchPass::pre_hooks(Module& module, torch::Tensor& stream) {
  for (size_t i = 0; i < module.forward_pre_hooks.size(); ++i) {
    const Hook hook = module.forward_pre_hooks[i];
    if (hook.kind == Hook::Kind::kResetStep) {
      check(hook.owner->start_of_forward());
    } else if (hook.kind == Hook::Kind::kPreForward) {
      if (backward_depth_ > 0) hook.owner->set_recomputing(true);
      Raised raised = hook.owner->pre_sub_module_forward(module);
      if (backward_depth_ > 0) hook.owner->set_recomputing(false);
      check(through(std::move(raised), "_pre_forward_module_hook"));
    } else if (hook.kind == Hook::Kind::kLeafInput) {
      module.leaf_inputs_remaining = stream.requires_grad() ? 1 : 0;
      if (stream.requires_grad() && torch::GradMode::is_enabled())
        stream.register_hook([this, &module](const torch::Tensor& gradient) {
          check(leaf_input_has_gradient(module));
          return gradient;
        });
    } else {
      stream = wrap_input(module, hook.owner, stream);
    }
  }
}

void TorchPass::forward_hooks(Module& module, Outputs& outputs) {
  for (size_t i = 0; i < module.forward_hooks.size(); ++i) {
    const Hook hook = module.forward_hooks[i];
    if (hook.kind == Hook::Kind::kPostForward) {
      check(through(hook.owner->post_sub_module_forward(module), "_post_forward_module_hook"));
    } else if (hook.kind == Hook::Kind::kEndOfForward) {
      if (!torch::GradMode::is_enabled()) check(hook.owner->end_of_forward());
    } else if (hook.kind == Hook::Kind::kLeafOutput) {
      check(check_leaf(module, std::ranges::any_of(outputs, [](const torch::Tensor& output) {
                         return output.requires_grad();
                       })));
    } else {
      wrap_outputs(module, hook.owner, outputs);
    }
  }
}

torch::Tensor TorchPass::wrap_input(Module& module, ParameterOffload* owner, const torch::Tensor& stream) {
  wraps_inputs(module, stream.requires_grad() ? 1 : 0);
  if (!stream.requires_grad()) return stream;
  ParameterOffload* hooks = post_backward_owner(module, owner);
  return watched(stream, [&module, hooks] { check(through(run_post_backward(module, *hooks), "backward")); });
}

void TorchPass::wrap_outputs(Module& module, ParameterOffload* owner, Outputs& outputs) {
  for (torch::Tensor& output : outputs) {
    wraps_output(module);
    ParameterOffload* hooks = pre_backward_owner(module, owner);
    output = watched(
        output, [this, &module, hooks] { check(through(run_pre_backward(module, *hooks), "backward")); });
  }
}

Raised TorchPass::backward() {
  forget_gradients();
  if (!has_loss()) return raise(FailureKind::kNoGradient, "RuntimeError", kNoGradFn);
  const DeeperBackward deeper(backward_depth_);
  TorchPass* outer = tensors_.set_running(this);
  Raised raised = guarded([&] { (loss_ / runtime().settings.gradient_accumulation_steps).backward(); });
  tensors_.set_running(outer);
  return raised;
}

void TorchPass::accumulate(Param& param, bool gradient) { check(accumulated(param, gradient)); }

}  // namespace zero3::sim
