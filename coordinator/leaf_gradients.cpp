// The part of ForwardPass about leaf modules: the optimizer reduces their gradients all at once, when the module's
// backward is over, instead of each as it is accumulated (v0.13.2, #5008).
#include <algorithm>

#include "coordinator/forward_pass.h"

namespace zero3 {
namespace {

constexpr const char* kLeafInputText =
    "A module cannot be set as a leaf module when it does not have any input tensors that require gradients "
    "and has "
    "output tensors that require gradients. This is because the gradient reduction hook will not be called "
    "in this "
    "case.";

bool contains(const std::vector<Param*>& params, const Param* param) {
  return std::ranges::find(params, param) != params.end();
}

}  // namespace

bool ForwardPass::is_optimized(const Param& param) const {
  return param.ds_numel > 0 || runtime_.behaviour.empty_params_are_optimized;
}

bool ForwardPass::reduced_with_leaf(const Param& param) const {
  return on_gradient_ && is_optimized(param) && param.ds_z3_leaf_module != nullptr &&
         runtime_.behaviour.leaf_reduction != LeafReduction::kPerParam;
}

// v0.18.0 (#7592): torch's full backward hook, which fires at the gradients of the inputs, or at those of the outputs
// if no input requires grad: before the module's own backward, then.
bool ForwardPass::has_full_backward_hook(const Module& module) const {
  if (!grad_enabled_ || runtime_.behaviour.leaf_reduction != LeafReduction::kFullBackwardHook) return false;
  return std::ranges::any_of(module.params(), [&](const Param* param) {
    return param->requires_grad && param->ds_z3_leaf_module == &module && reduced_with_leaf(*param);
  });
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

// v0.13.2-v0.17.6: nothing would tell when the module's backward is over.
Raised ForwardPass::check_leaf(const Module& module, const std::vector<Value>& outputs) const {
  if (module.leaf_inputs_remaining > 0 || std::ranges::none_of(outputs, &Value::requires_grad))
    return nullptr;
  return through(raise(FailureKind::kLeafInput, "RuntimeError", kLeafInputText), "forward_post_hook");
}

// Missing gradients are made as zeros_like(param), which holds nothing while the param is partitioned. A param that is
// also registered as external to its own leaf module is reduced once.
Raised ForwardPass::reduce_leaf_module_grads(const Module& leaf) {
  for (Param* param : leaf.param_set()) {
    if (!param->requires_grad || param->ds_z3_leaf_module != &leaf || !is_optimized(*param)) continue;
    const bool has_gradient = contains(leaf_gradients_, param);
    if (!has_gradient && !param->data_is_full) empty_gradients_.push_back(param);
    if (!has_gradient) leaf_gradients_.push_back(param);
    param->has_grad = true;
    gradients_.push_back(param);
    if (Raised raised = on_gradient_(*param)) return through(std::move(raised), "reduce_leaf_module_grads");
  }
  return nullptr;
}

}  // namespace zero3
