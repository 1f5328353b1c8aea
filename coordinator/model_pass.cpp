#include "coordinator/model_pass.h"

#include <algorithm>

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

void ModelPass::forget_gradients() {
  gradients_.clear();
  empty_gradients_.clear();
  leaf_gradients_.clear();
}

Raised ModelPass::read_weight(Param* param, bool in_engine) {
  if (param->data_is_full || param->ds_status != ZeroParamStatus::kNotAvailable || !in_engine) return nullptr;
  Module& running = *process_.forward_module_stack.back();
  running.register_external(param);
  runtime_.emit({.kind = EventKind::kExternal, .module = &running, .params = std::span(&param, 1)});
  return partitioner_.all_gather(std::span(&param, 1), Reason::kAccessed, &running);
}

void ModelPass::wraps_inputs(Module& module, int requiring_grad) const {
  const bool once = runtime_.behaviour.grads_remaining_initialised_once;
  if (!once || !module.has_grads_remaining) module.ds_grads_remaining = 0;
  module.has_grads_remaining = true;
  module.ds_grads_remaining += requiring_grad;
}

void ModelPass::wraps_output(Module& module) {
  ++module.applied_pre_backward_ref_cnt;
  module.pre_backward_done = false;
}

ParameterOffload* ModelPass::pre_backward_owner(const Module& module, ParameterOffload* owner) {
  return module.pre_bwd_fn_owner != nullptr ? module.pre_bwd_fn_owner : owner;
}

ParameterOffload* ModelPass::post_backward_owner(const Module& module, ParameterOffload* owner) {
  return module.post_bwd_fn_owner != nullptr ? module.post_bwd_fn_owner : owner;
}

Raised ModelPass::run_pre_backward(Module& module, ParameterOffload& owner) const {
  constexpr std::string_view kFunction = "_run_before_backward_function";
  if (runtime_.behaviour.pre_backward_dedup == PreBackwardDedup::kFlag) {
    if (module.pre_backward_done) return nullptr;
    if (Raised raised = owner.pre_sub_module_backward(module)) return through(std::move(raised), kFunction);
    module.pre_backward_done = true;
    return nullptr;
  }
  if (module.applied_pre_backward_ref_cnt <= 0) return nullptr;
  if (Raised raised = owner.pre_sub_module_backward(module)) return through(std::move(raised), kFunction);
  --module.applied_pre_backward_ref_cnt;
  return nullptr;
}

Raised ModelPass::run_post_backward(Module& module, ParameterOffload& owner) {
  if (--module.ds_grads_remaining != 0) return nullptr;
  return through(owner.post_sub_module_backward(module), "_run_after_backward_function");
}

// A param that receives no gradient keeps what it had; its hooks run all the same.
Raised ModelPass::accumulated(Param& param, bool gradient) {
  if (gradient) param.has_grad = true;
  if (!is_optimized(param)) return nullptr;
  if (reduced_with_leaf(param)) {
    if (gradient) leaf_gradients_.push_back(&param);
    return nullptr;
  }
  if (param.has_grad) gradients_.push_back(&param);
  return on_gradient_ ? through(on_gradient_(param), "reduce_partition_and_remove_grads") : nullptr;
}

Raised ModelPass::from_saved_tensor_hook(Raised raised) {
  if (!raised) return nullptr;
  std::string text = raised->message() + "\n\nAt:";
  for (auto function = raised->path.rbegin(); function != raised->path.rend(); ++function)
    text += "\n  " + *function;
  return raise(raised->kind, "RuntimeError", std::move(text), std::move(raised->params));
}

bool ModelPass::has_empty_gradient(const Param& param) const { return contains(empty_gradients_, &param); }

bool ModelPass::is_optimized(const Param& param) const {
  return param.ds_numel > 0 || runtime_.behaviour.empty_params_are_optimized;
}

bool ModelPass::reduced_with_leaf(const Param& param) const {
  return on_gradient_ && is_optimized(param) && param.ds_z3_leaf_module != nullptr &&
         runtime_.behaviour.leaf_reduction != LeafReduction::kPerParam;
}

// v0.18.0 (#7592): torch's full backward hook, which fires at the gradients of the inputs, or at those of the outputs
// if no input requires grad: before the module's own backward, then.
bool ModelPass::has_full_backward_hook(const Module& module) const {
  if (runtime_.behaviour.leaf_reduction != LeafReduction::kFullBackwardHook) return false;
  return std::ranges::any_of(module.params(), [&](const Param* param) {
    return param->requires_grad && param->ds_z3_leaf_module == &module && reduced_with_leaf(*param);
  });
}

// v0.13.2-v0.17.6: nothing would tell when the module's backward is over.
Raised ModelPass::check_leaf(const Module& module, bool output_requires_grad) {
  if (module.leaf_inputs_remaining > 0 || !output_requires_grad) return nullptr;
  return through(raise(FailureKind::kLeafInput, "RuntimeError", kLeafInputText), "forward_post_hook");
}

Raised ModelPass::leaf_input_has_gradient(Module& leaf) {
  return --leaf.leaf_inputs_remaining == 0 ? reduce_leaf_module_grads(leaf) : nullptr;
}

// Missing gradients are made as zeros_like(param), which holds nothing while the param is partitioned. A param that is
// also registered as external to its own leaf module is reduced once.
Raised ModelPass::reduce_leaf_module_grads(const Module& leaf) {
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
