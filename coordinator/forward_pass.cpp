#include "coordinator/forward_pass.h"

#include <algorithm>

namespace zero3 {
Raised ForwardPass::run(std::span<const Call> calls, bool grad_enabled, bool input_requires_grad,
                        bool in_engine) {
  const bool keeps_loss = grad_enabled && in_engine;
  if (keeps_loss) {
    tape_.clear();
    frames_.clear();
    reentrant_.clear();
  }
  grad_enabled_ = grad_enabled;
  in_engine_ = in_engine;
  frame_ = -1;
  saves_left_ = kCountsNothing;
  stopped_ = false;
  Value value{-1, input_requires_grad};
  if (Raised raised = call_in_turn(calls, value)) return raised;
  if (keeps_loss) loss_ = value;
  in_engine_ = false;
  return nullptr;
}

// Each call takes what the one before it returned.
Raised ForwardPass::call_in_turn(std::span<const Call> calls, Value& value) {
  std::vector<Value> results;
  for (const Call& call : calls) {
    if (call.read != nullptr) {
      if (Raised raised = read_weight(call.read, in_engine_)) return raised;
      continue;
    }
    if (call.stops) {
      stop_here(value);
      if (stopped_) return nullptr;
      continue;
    }
    if (call.is_region()) {
      if (Raised raised = call_region(call, value)) return raised;
      if (stopped_) return nullptr;
      continue;
    }
    results.clear();
    if (Raised raised = call_checkpointed(call, value, results)) return raised;
    if (stopped_) return nullptr;
    if (call.discard_output) continue;
    value = joined(results);
  }
  return nullptr;
}

Raised ForwardPass::call_checkpointed(const Call& call, Value input, std::vector<Value>& outputs) {
  if (call.detach_input) input = Value{};
  if (call.flow) input.requires_grad = call.flow->inputs.requiring_grad > 0;
  if (call.checkpointing == Checkpointing::kNone || !grad_enabled_) return call_module(call, input, outputs);
  if (call.checkpointing == Checkpointing::kReentrant) {
    grad_enabled_ = false;
    Raised raised = call_module(call, input, outputs);
    grad_enabled_ = true;
    if (raised) return raised;
    for (Value& output : outputs) output = Value{-1, input.requires_grad};
    if (!input.requires_grad) return nullptr;
    const int index = add_reentrant(call, input);
    for (Value& output : outputs) output.node = index;
    return nullptr;
  }
  return call_in_frame(call, input, outputs);
}

int ForwardPass::add_reentrant(const Call& call, Value input) {
  const int index = tape_.add({.kind = NodeKind::kCheckpoint,
                               .module = call.module,
                               .frame = static_cast<int>(reentrant_.size()),
                               .saves = true});
  if (input.node >= 0) tape_.add_input(input.node);
  reentrant_.emplace_back(call, input);
  return index;
}

Raised ForwardPass::call_in_frame(const Call& call, Value input, std::vector<Value>& outputs) {
  if (call.checkpointing == Checkpointing::kNonReentrant) count_save();
  if (stopped_) return nullptr;
  const int outer_frame = frame_;
  const int outer_saves = saves_left_;
  const bool outer_mark = stops_at_mark_;
  frame_ = static_cast<int>(frames_.size());
  saves_left_ = kCountsNothing;
  stops_at_mark_ = false;
  frames_.push_back({.call = call, .input = input, .parent = outer_frame});
  Raised raised = call_checkpointed_part(call, input, outputs);
  frame_ = outer_frame;
  saves_left_ = outer_saves;
  stops_at_mark_ = outer_mark;
  return raised;
}

// What the caller computes from a module's outputs: their sum, which saves no tensor.
Value ForwardPass::joined(const std::vector<Value>& values) {
  if (values.size() == 1) return values.front();
  const bool requires_grad = std::ranges::any_of(values, &Value::requires_grad);
  if (!grad_enabled_ || !requires_grad) return {};
  const int index = tape_.add({.frame = frame_});
  for (const Value& value : values) {
    if (value.requires_grad && value.node >= 0) tape_.add_input(value.node);
  }
  return {index, true};
}

void ForwardPass::count_save() {
  if (frame_ >= 0) ++frames_[static_cast<size_t>(frame_)].saved;
  if (saves_left_ > 0 && --saves_left_ == 0) stopped_ = true;
}

Raised ForwardPass::call_module(const Call& call, Value input, std::vector<Value>& outputs) {
  if (call.flow) return call_recorded(call, input, outputs);
  Module& module = *call.module;
  if (Raised raised = pre_hooks(call, input)) return raised;
  const bool hooked = module.is_leaf && grad_enabled_ && has_full_backward_hook(module);
  const bool at_input = hooked && input.requires_grad;
  if (at_input) input = wrap_leaf(NodeKind::kLeafBackward, module, input);
  if (Raised raised = run_body(call, input, outputs)) return raised;
  if (stopped_) return nullptr;  // an exception left the module: no forward hook runs
  if (Raised raised = forward_hooks(call, outputs)) return raised;
  if (hooked && !at_input) wrap_leaf_outputs(module, outputs);
  return nullptr;
}

Raised ForwardPass::pre_hooks(const Call& call, Value& input) {
  Module& module = *call.module;
  for (size_t i = 0; i < module.forward_pre_hooks.size(); ++i) {
    const Hook hook = module.forward_pre_hooks[i];
    if (hook.kind == Hook::Kind::kResetStep) {
      if (Raised raised = hook.owner->start_of_forward()) return raised;
    } else if (hook.kind == Hook::Kind::kPreForward) {
      if (backward_depth_ > 0) hook.owner->set_recomputing(true);
      Raised raised = hook.owner->pre_sub_module_forward(module);
      if (backward_depth_ > 0) hook.owner->set_recomputing(false);
      if (raised) return through(std::move(raised), "_pre_forward_module_hook");
    } else if (hook.kind == Hook::Kind::kLeafInput) {
      module.leaf_inputs_remaining = input.requires_grad ? 1 : 0;
      if (input.requires_grad) input = wrap_leaf(NodeKind::kLeafInput, module, input);
    } else if (call.flow) {
      input = wrap_recorded(call, NodeKind::kPostBackward, hook.owner, input);
    } else {
      input = wrap_post_backward(module, hook.owner, input);
    }
  }
  return nullptr;
}

Raised ForwardPass::run_body(const Call& call, Value input, std::vector<Value>& outputs) {
  Module& module = *call.module;
  Value value = input;
  if (Raised raised = use_weights(module, module.used_externals)) return raised;
  if (Raised raised = use_weights(module, module.own_params)) return raised;
  std::span<Param* const> weights = module.own_params;
  std::vector<Param*> with_externals;
  if (!module.used_externals.empty()) {
    with_externals = module.used_externals;
    with_externals.insert(with_externals.end(), module.own_params.begin(), module.own_params.end());
    weights = with_externals;
  }
  if (!weights.empty() || module.children.empty()) value = op(&module, std::span(&value, 1), weights);
  if (stopped_) return nullptr;
  if (Raised raised = call_in_turn(call.children, value)) return raised;
  outputs.assign(1, value);
  if (module.outputs > 1) {
    outputs.clear();
    for (int i = 0; i < module.outputs && !stopped_; ++i)
      outputs.push_back(op(nullptr, std::span(&value, 1), {}));
  }
  return nullptr;
}

// torch.nn.functional.linear's errors for two rows of input, torch 1.13.
Raised ForwardPass::single_element_weight(const Module& module, Param* param) {
  const bool is_its_first = !module.own_params.empty() && module.own_params.front() == param;
  if (!module.is_linear || !is_its_first || param->ds_shape.size() != 2) return nullptr;
  const std::string text = module.own_params.size() > 1
                               ? "mat2 must be a matrix, got 1-D tensor"
                               : "size mismatch, got 2, 2x" + std::to_string(param->ds_shape.back()) + ",1";
  return raise(FailureKind::kEmptyWeight, "RuntimeError", text, {param});
}

// Weights that no hook of this module has gathered: of other modules, or its own inside a leaf. While the engine runs
// forward, reading a partitioned one registers it as external to the module that runs and gathers it; else the
// computation meets an empty tensor, which raises, or one of a single element (partitioned_data_numel), which only a
// Linear's weight cannot be.
Raised ForwardPass::use_weights(const Module& module, std::span<Param* const> weights) {
  for (Param* param : weights) {
    if (Raised raised = read_weight(param, in_engine_)) return raised;
    if (param->data_is_full || param->ds_numel == 0) continue;
    if (runtime().behaviour.partitioned_data_numel > 0) {
      if (Raised raised = single_element_weight(module, param)) return raised;
      continue;
    }
    return raise(FailureKind::kEmptyWeight, "RuntimeError",
                 "The size of tensor a (" + std::to_string(param->ds_numel) +
                     ") must match the size of tensor b (0) at non-singleton dimension 0",
                 {param});
  }
  return nullptr;
}

Raised ForwardPass::forward_hooks(const Call& call, std::vector<Value>& outputs) {
  Module& module = *call.module;
  for (size_t i = 0; i < module.forward_hooks.size(); ++i) {
    const Hook hook = module.forward_hooks[i];
    if (hook.kind == Hook::Kind::kPostForward) {
      if (Raised raised = hook.owner->post_sub_module_forward(module)) {
        return through(std::move(raised), "_post_forward_module_hook");
      }
    } else if (hook.kind == Hook::Kind::kEndOfForward) {
      if (grad_enabled_) continue;
      if (Raised raised = hook.owner->end_of_forward()) return raised;
    } else if (hook.kind == Hook::Kind::kLeafOutput) {
      const bool requires_grad = std::ranges::any_of(outputs, &Value::requires_grad);
      if (Raised raised = check_leaf(module, requires_grad)) return raised;
    } else if (call.flow) {
      outputs.front() = wrap_recorded(call, NodeKind::kPreBackward, hook.owner, outputs.front());
    } else {
      for (Value& output : outputs) output = wrap_pre_backward(module, hook.owner, output);
    }
  }
  return nullptr;
}

Value ForwardPass::op(Module* module, std::span<const Value> inputs, std::span<Param* const> weights) {
  const auto wants_grad = [](const auto& item) { return item.requires_grad; };
  const bool requires_grad =
      grad_enabled_ &&
      (std::ranges::any_of(inputs, wants_grad) ||
       std::ranges::any_of(weights, [](const Param* param) { return param->requires_grad; }));
  if (!requires_grad) return {};
  const bool is_linear = module != nullptr && module->is_linear;
  const bool saves = !is_linear || saves_tensors(*module, inputs, weights);
  const int index = tape_.add({.weight_version = is_linear ? kept_version(*module, inputs) : -1,
                               .module = module,
                               .frame = frame_,
                               .saves = saves});
  for (const Value& input : inputs) {
    if (input.requires_grad && input.node >= 0) tape_.add_input(input.node);
  }
  // torch's Linear gives the bias its gradient first, DeepSpeed's own the weight.
  const bool first_comes_first = is_linear && runtime().behaviour.linear_is_wrapped;
  for (size_t i = 0; i < weights.size(); ++i) {
    Param* param = weights[first_comes_first ? weights.size() - 1 - i : i];
    if (param->requires_grad) tape_.add_weight(param);
  }
  if (saves) count_save();
  return {index, true};
}

// A Linear of which only the bias learns, on an input without grad, needs nothing for its backward. (Where it is
// wrapped, it keeps its tensors all the same.)
bool ForwardPass::saves_tensors(const Module& linear, std::span<const Value> inputs,
                                std::span<Param* const> weights) const {
  if (runtime().behaviour.linear_is_wrapped || !linear.used_externals.empty()) return true;
  return std::ranges::any_of(inputs, &Value::requires_grad) ||
         std::ranges::any_of(
             weights, [](const Param* param) { return param->requires_grad && param->ds_shape.size() > 1; });
}

// A Linear makes its input's gradient with its weight. (Where it is wrapped, it keeps the weight all the same.)
int ForwardPass::kept_version(const Module& linear, std::span<const Value> inputs) const {
  if (linear.own_params.empty() || linear.own_params.front()->ds_shape.size() != 2) return -1;
  const bool keeps = runtime().behaviour.linear_is_wrapped ||
                     std::ranges::any_of(inputs, &Value::requires_grad) ||
                     std::ranges::any_of(linear.used_externals, &Param::requires_grad);
  return keeps ? linear.own_params.front()->data_version : -1;
}

Value ForwardPass::wrap_post_backward(Module& module, ParameterOffload* owner, Value input) {
  wraps_inputs(module, input.requires_grad ? 1 : 0);
  if (!input.requires_grad) return input;
  if (!grad_enabled_) return {};
  const int index = tape_.add(
      {.kind = NodeKind::kPostBackward, .module = &module, .owner = post_backward_owner(module, owner)});
  if (input.node >= 0) tape_.add_input(input.node);
  return {index, true};
}

Value ForwardPass::wrap_pre_backward(Module& module, ParameterOffload* owner, Value output) {
  wraps_output(module);
  if (!output.requires_grad || !grad_enabled_) return {};
  const int index = tape_.add(
      {.kind = NodeKind::kPreBackward, .module = &module, .owner = pre_backward_owner(module, owner)});
  if (output.node >= 0) tape_.add_input(output.node);
  return {index, true};
}

Value ForwardPass::wrap_leaf(NodeKind kind, Module& module, Value value) {
  if (!grad_enabled_) return value;
  const int index = tape_.add({.kind = kind, .module = &module});
  if (value.node >= 0) tape_.add_input(value.node);
  return {index, true};
}

void ForwardPass::wrap_leaf_outputs(Module& module, std::vector<Value>& outputs) {
  if (std::ranges::none_of(outputs, &Value::requires_grad)) return;
  const int index = tape_.add({.kind = NodeKind::kLeafBackward, .module = &module});
  for (Value& output : outputs) {
    if (output.node >= 0) tape_.add_input(output.node);
    if (output.requires_grad) output.node = index;
  }
}

}  // namespace zero3
