#include "coordinator/parameter_offload.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "coordinator/partitioned_param_coordinator.h"
#include "coordinator/prefetch_coordinator.h"
#include "coordinator/summary.h"

namespace zero3 {
namespace {

// DEFAULT_LEAF_MODULE_CLASSES of leaf_module_config.py.
bool is_default_leaf_class(const Module& module) {
  constexpr std::array<std::string_view, 3> kClasses = {
      "transformers.models.mixtral.modeling_mixtral.MixtralSparseMoeBlock",
      "transformers.models.qwen2_moe.modeling_qwen2_moe.Qwen2MoeSparseMoeBlock",
      "transformers.models.qwen3_moe.modeling_qwen3_moe.Qwen3MoeSparseMoeBlock",
  };
  return std::ranges::find(kClasses, module.qualified_type) != kClasses.end();
}

Raised backward_in_eval_mode(std::string_view function) {
  return through(raise(FailureKind::kEvalBackward, "AssertionError",
                       "backward pass is invalid for module in evaluation mode"),
                 function);
}

}  // namespace

ParameterOffload::ParameterOffload(Process& process, Module& root, Runtime& runtime, Partitioner& partitioner)
    : process_(process),
      root_(root),
      runtime_(runtime),
      partitioner_(partitioner),
      modules_(modules_of(root)),
      parameters_(parameters_of(root)) {
  if (runtime_.behaviour.tracing_error_debug_names) process_.name_params(root_);  // nothing else shows them
  const std::vector<Param*> converted = process_.convert(parameters_);
  if (runtime_.tensors != nullptr) runtime_.tensors->convert(converted);
  if (runtime_.behaviour.init_marks_persistent) mark_at_conversion(converted);
  for (Module* module : modules_) {
    if (runtime_.behaviour.default_leaf_classes && is_default_leaf_class(*module)) module->is_leaf = true;
    module->is_leaf = module->is_leaf && runtime_.behaviour.leaf_modules;
    module->params_changed();
  }
  mark_persistent_parameters();
  const Behaviour& behaviour = runtime_.behaviour;
  if (behaviour.forward_start_reset == ForwardStartReset::kBeforeRootPreHook) {
    root_.forward_pre_hooks.push_back({Hook::Kind::kResetStep, this});
  }
  register_module(root_);
  if (behaviour.no_grad_forward_hook_reset) root_.forward_hooks.push_back({Hook::Kind::kEndOfForward, this});
  if (behaviour.forward_start_reset == ForwardStartReset::kAfterRootPreHook) {
    root_.forward_pre_hooks.push_back({Hook::Kind::kResetStep, this});
  }
  process_.forward_module_stack.push_back(&root_);
}

ParameterOffload::~ParameterOffload() = default;

// These stay gathered, but nothing gathers them that does so with persistent_.
void ParameterOffload::mark_at_conversion(std::span<Param* const> converted) {
  const Settings& settings = runtime_.settings;
  const int64_t limit = settings.model_persistence_threshold_numel / runtime_.world_size();
  for (Param* param : converted) {
    if (param->ds_numel > settings.param_persistence_threshold_numel ||
        param->ds_numel > limit - process_.persisted_numel)
      continue;
    param->ds_persist = true;
    process_.persisted_numel += param->ds_numel;
  }
}

void ParameterOffload::mark_persistent_parameters() {
  const Behaviour& behaviour = runtime_.behaviour;
  const int64_t threshold = runtime_.settings.param_persistence_threshold_numel;
  int64_t total_numel = 0;
  for (Param* param : parameters_) {
    if (behaviour.model_persistence_threshold &&
        param->ds_numel > runtime_.settings.model_persistence_threshold_numel - total_numel) {
      continue;
    }
    if (behaviour.persistence_inclusive ? param->ds_numel > threshold : param->ds_numel >= threshold)
      continue;
    param->ds_persist = true;
    persistent_.push_back(param);
    total_numel += param->ds_numel;
  }
}

std::unique_ptr<ParamCoordinator> ParameterOffload::make_coordinator(bool training) {
  const Behaviour& behaviour = runtime_.behaviour;
  if (behaviour.coordinator == Coordinator::kPrefetch)
    return std::make_unique<PrefetchCoordinator>(runtime_, partitioner_);
  std::shared_ptr<InflightRegistry> registry;
  if (behaviour.registry_home == RegistryHome::kCoordinator) {
    registry = std::make_shared<InflightRegistry>();
  } else {
    const bool own_place = behaviour.registry_home == RegistryHome::kModulePerMode && training;
    std::shared_ptr<InflightRegistry>& home = root_.inflight_registries[own_place ? 1 : 0];
    if (!home) home = std::make_shared<InflightRegistry>();
    registry = home;
  }
  return std::make_unique<PartitionedParameterCoordinator>(runtime_, partitioner_, std::move(registry));
}

ParamCoordinator& ParameterOffload::coordinator(bool training) {
  std::unique_ptr<ParamCoordinator>& place =
      coordinators_[training || !runtime_.behaviour.coordinator_per_mode ? 1 : 0];
  if (!place) place = make_coordinator(training);
  return *place;
}

void ParameterOffload::set_recomputing(bool recomputing) {
  for (const auto& coordinator : coordinators_) {
    if (coordinator) coordinator->set_recomputing(recomputing);
  }
}

Raised ParameterOffload::pre_sub_module_forward(Module& module) {
  process_.forward_module_stack.push_back(&module);
  return through(coordinator(module.training).before_sub_module(module, true),
                 "pre_sub_module_forward_function");
}

Raised ParameterOffload::post_sub_module_forward(Module& module) {
  process_.forward_module_stack.pop_back();
  return through(coordinator(module.training).after_sub_module(module, true),
                 "post_sub_module_forward_function");
}

Raised ParameterOffload::pre_sub_module_backward(Module& module) {
  constexpr std::string_view kFunction = "pre_sub_module_backward_function";
  const Behaviour& behaviour = runtime_.behaviour;
  if (behaviour.backward_needs_train_mode && !module.training) return backward_in_eval_mode(kFunction);
  const bool training = behaviour.backward_uses_train_mode || module.training;
  return through(coordinator(training).before_sub_module(module, false), kFunction);
}

Raised ParameterOffload::post_sub_module_backward(Module& module) {
  constexpr std::string_view kFunction = "post_sub_module_backward_function";
  const Behaviour& behaviour = runtime_.behaviour;
  if (behaviour.backward_needs_train_mode && !module.training) return backward_in_eval_mode(kFunction);
  const bool training = behaviour.backward_uses_train_mode || module.training;
  return through(coordinator(training).after_sub_module(module, false), kFunction);
}

Raised ParameterOffload::start_of_forward() {
  const bool first = runtime_.behaviour.forward_start_reset == ForwardStartReset::kBeforeRootPreHook;
  return through(coordinator(true).reset_step(), first ? "_start_of_forward_hook" : "_pre_forward_hook");
}

Raised ParameterOffload::end_of_forward() {
  return through(coordinator(!runtime_.behaviour.coordinator_per_mode).reset_step(), "_end_of_forward_hook");
}

Raised ParameterOffload::reset_after_backward() { return coordinator(true).reset_step(); }

Raised ParameterOffload::register_module_hooks() {
  if (Raised raised = coordinator(root_.training).hooks_registered_again()) return raised;
  register_module(root_);
  return nullptr;
}

void ParameterOffload::register_module(Module& module) {
  const Behaviour& behaviour = runtime_.behaviour;
  module.ds_id = process_.next_module_id;
  module.ds_recompute_parameters.clear();
  if (module.is_leaf) {
    for (Param* param : parameters_of(module)) param->ds_z3_leaf_module = &module;
  } else {
    for (Module* child : module.children) {
      ++process_.next_module_id;
      register_module(*child);
    }
  }
  module.forward_pre_hooks.push_back({Hook::Kind::kPreForward, this});
  module.forward_hooks.push_back({Hook::Kind::kPostForward, this});
  module.forward_hooks.push_back({Hook::Kind::kPreBackwardWrap, this});
  module.forward_pre_hooks.push_back({Hook::Kind::kPostBackwardWrap, this});
  if (behaviour.backward_fn_made_once) {
    if (module.pre_bwd_fn_owner == nullptr) module.pre_bwd_fn_owner = this;
    if (module.post_bwd_fn_owner == nullptr) module.post_bwd_fn_owner = this;
  }
}

void ParameterOffload::register_leaf_hooks() {
  if (runtime_.behaviour.leaf_reduction != LeafReduction::kInputHooks) return;
  for (Module* module : modules_) {
    const auto reduced_with_it = [module](const Param* param) {
      return param->requires_grad && param->ds_z3_leaf_module == module;
    };
    if (std::ranges::none_of(parameters_, reduced_with_it)) continue;
    module->forward_pre_hooks.push_back({Hook::Kind::kLeafInput, this});
    module->forward_hooks.push_back({Hook::Kind::kLeafOutput, this});
  }
}

void ParameterOffload::remove_module_hooks() {
  const auto is_module_hook = [this](const Hook& hook) {
    const bool stays = hook.kind == Hook::Kind::kResetStep || hook.kind == Hook::Kind::kEndOfForward ||
                       hook.kind == Hook::Kind::kLeafInput || hook.kind == Hook::Kind::kLeafOutput;
    return hook.owner == this && !stays;
  };
  for (Module* module : modules_) {
    std::erase_if(module->forward_pre_hooks, is_module_hook);
    std::erase_if(module->forward_hooks, is_module_hook);
  }
}

Raised ParameterOffload::partition_all_parameters() {
  const bool split = runtime_.behaviour.offload_is_optimizer;  // its own function since the class is its own
  const auto in_function = [&](Raised raised) {
    return split ? through(std::move(raised), "partition_all_parameters") : std::move(raised);
  };
  if (Raised raised = coordinator(root_.training).release_and_reset_all(root_))
    return in_function(std::move(raised));
  if (runtime_.behaviour.coordinator == Coordinator::kPrefetch) return nullptr;
  for (Param* param : root_.params_below()) {
    if (param->ds_status == ZeroParamStatus::kNotAvailable) continue;
    return in_function(raise(
        FailureKind::kExpectedReleased, "RuntimeError",
        ds_summary(*param, runtime_.behaviour, runtime_.world_size()) + " expected to be released", {param}));
  }
  return nullptr;
}

}  // namespace zero3
