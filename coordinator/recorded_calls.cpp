// Calls recorded from a real run. How tensors flow between them is not modelled: which hooks of a call backward comes
// to was seen, and torch runs them in the reverse order of their making. So every node that backward reached hangs on
// the one made before it.
#include <algorithm>

#include "coordinator/forward_pass.h"

namespace zero3 {

Raised ForwardPass::call_recorded(const Call& call, Value chain, std::vector<Value>& outputs) {
  Module& module = *call.module;
  const Flow& flow = *call.flow;
  if (Raised raised = pre_hooks(call, chain)) return raised;
  const bool hooked = module.is_leaf && grad_enabled_ && has_full_backward_hook(module);
  const bool at_input = hooked && flow.inputs.requiring_grad > 0;
  if (at_input) chain = wrap_leaf(NodeKind::kLeafBackward, module, chain);
  if (Raised raised = use_weights(module, module.own_params)) return raised;
  const bool reached = flow.outputs.reached > 0 || flow.outputs.contained_reached > 0 ||
                       flow.inputs.reached > 0 || flow.inputs.contained_reached > 0;
  if (reached && !module.own_params.empty()) {
    chain.requires_grad = chain.node >= 0;
    const Value computed = op(&module, std::span(&chain, 1), module.own_params);
    if (computed.node >= 0) chain = computed;
  }
  if (stopped_) return nullptr;
  if (Raised raised = call_in_turn(call.children, chain)) return raised;
  if (stopped_) return nullptr;
  chain.requires_grad = grad_enabled_ && flow.outputs.requiring_grad > 0;
  outputs.assign(1, chain);
  if (Raised raised_after = forward_hooks(call, outputs)) return raised_after;
  if (hooked && !at_input) wrap_leaf_outputs(module, outputs);
  outputs.front().requires_grad = outputs.front().node >= 0;
  return nullptr;
}

// A region as such: what it calls, in a frame or without grad.
Raised ForwardPass::call_region(const Call& call, Value& chain) {
  std::vector<Value> outputs;
  if (!grad_enabled_) return call_in_turn(call.children, chain);
  if (call.checkpointing != Checkpointing::kReentrant) {
    Raised raised = call_in_frame(call, chain, outputs);
    if (!raised && !stopped_) chain = outputs.front();
    return raised;
  }
  Value inside{};
  grad_enabled_ = false;
  inside_no_grad_region_ = true;
  Raised raised = call_in_turn(call.children, inside);
  inside_no_grad_region_ = false;
  grad_enabled_ = true;
  if (raised) return raised;
  const Tensors& made = call.flow->outputs;
  if (made.reached + made.contained_reached > 0) chain = {add_reentrant(call, chain), true};
  return nullptr;
}

// What a region runs, the first time and again.
Raised ForwardPass::call_checkpointed_part(const Call& call, Value input, std::vector<Value>& outputs) {
  if (!call.is_region()) return call_module(call, input, outputs);
  if (Raised raised = call_in_turn(call.children, input)) return raised;
  outputs.assign(1, input);
  return nullptr;
}

// The last tensor that a region saves: the first that backward asks for, and there its recomputation stops.
void ForwardPass::stop_here(Value& chain) {
  if (stops_at_mark_) {
    stopped_ = true;
  } else if (grad_enabled_ && frame_ >= 0) {
    const int index = tape_.add({.frame = frame_, .saves = true});
    if (chain.node >= 0) tape_.add_input(chain.node);
    chain = {index, true};
  }
}

// The wrappers of one hook around the call's inputs (kPostBackward) or outputs (kPreBackward).
Value ForwardPass::wrap_recorded(const Call& call, NodeKind kind, ParameterOffload* owner, Value chain) {
  Module& module = *call.module;
  const bool inputs = kind == NodeKind::kPostBackward;
  const Tensors& tensors = inputs ? call.flow->inputs : call.flow->outputs;
  const TensorCount& first = inputs ? call.flow->first_inputs : call.flow->first_outputs;
  int wrapped = inside_no_grad_region_ ? first.plain : tensors.requiring_grad;
  int reached = grad_enabled_ ? tensors.reached : 0;
  if (runtime().behaviour.wraps_containers) {
    wrapped += inside_no_grad_region_ ? first.contained : tensors.contained_requiring_grad;
    reached += grad_enabled_ ? tensors.contained_reached : 0;
  }
  ParameterOffload* maker = inputs ? post_backward_owner(module, owner) : pre_backward_owner(module, owner);
  if (inputs) {
    wraps_inputs(module, wrapped);
  } else {
    module.applied_pre_backward_ref_cnt += std::max(wrapped, 1);
    module.pre_backward_done = false;
  }
  for (int i = 0; i < reached; ++i) {
    const int index = tape_.add({.kind = kind, .module = &module, .owner = maker});
    if (chain.node >= 0) tape_.add_input(chain.node);
    chain = {index, true};
  }
  return chain;
}

}  // namespace zero3
