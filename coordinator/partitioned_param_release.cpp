// release_sub_module, release_and_reset_all, release_backward_leftovers.
#include <algorithm>

#include "coordinator/partitioned_param_coordinator.h"
#include "coordinator/summary.h"

namespace zero3 {

Raised PartitionedParameterCoordinator::release_param(Param& param, Reason reason) {
  if (param.ds_status != ZeroParamStatus::kAvailable || !param.ds_active_sub_modules.empty()) return nullptr;
  Param* released = &param;
  if (Raised raised = partitioner_.partition(std::span(&released, 1), reason)) {
    return through(std::move(raised), "__release_param");
  }
  n_available_numel_ -= param.ds_numel;
  return nullptr;
}

Raised PartitionedParameterCoordinator::release_sub_module(Module& module, bool forward) {
  const Behaviour& behaviour = runtime_.behaviour;
  ReleaseAnswer* answer = nullptr;
  if (trace_.complete()) {
    answer = &release_rule_.answer(module, step_id_, trace_,
                                   [this](const Param& param) { return fetched_for(param); });
  }
  if (behaviour.active_backward_stack && !forward) {
    if (active_backward_.empty()) {
      return raise(FailureKind::kNoActiveBackward, "AssertionError",
                   "active_backward_submodules is empty during backward pass");
    }
    // The recompute params join the cached answer for good.
    for (const Param* param : module.ds_recompute_parameters) {
      if (answer != nullptr && !param->ds_persist) answer->allow(*param);
    }
  }
  std::vector<Param*> recomputed;
  if (behaviour.active_backward_stack && !forward) {
    recomputed.swap(module.ds_recompute_parameters);
    std::ranges::sort(recomputed, {}, &Param::set_order);
    forget_active_backward(module);
  }
  const auto own = behaviour.release_iterates_set ? module.param_set() : module.params();
  for (Param* param : own) {
    if (Raised raised =
            release_module_param(module, *param, answer == nullptr || answer->allows(*param), answer)) {
      return raised;
    }
  }
  for (Param* param : recomputed) {
    if (std::ranges::find(own, param) != own.end()) continue;
    const bool allowed = answer == nullptr ? !param->ds_persist : answer->allows(*param);
    if (Raised raised = release_module_param(module, *param, allowed, answer)) return raised;
  }
  return nullptr;
}

Raised PartitionedParameterCoordinator::release_module_param(Module& module, Param& param, bool allowed,
                                                             const ReleaseAnswer* answer) {
  param.ds_active_sub_modules.discard(module.ds_id);
  if (allowed && !param.is_external_param && param.ds_status == ZeroParamStatus::kAvailable &&
      param.ds_active_sub_modules.empty()) {
    return release_param(param, answer == nullptr ? Reason::kTraceIncomplete : Reason::kNotReused);
  }
  if (runtime_.observer != nullptr) explain_kept(module, param, answer);
  return nullptr;
}

void PartitionedParameterCoordinator::explain_kept(const Module& module, const Param& param,
                                                   const ReleaseAnswer* answer) const {
  auto* kept = const_cast<Param*>(&param);
  Event event{.kind = EventKind::kKeep, .module = &module, .params = std::span(&kept, 1)};
  if (param.is_external_param) {
    event.reason = Reason::kIsExternal;
  } else if (param.ds_status == ZeroParamStatus::kInflight) {
    event.reason = Reason::kInFlight;
  } else if (param.ds_status == ZeroParamStatus::kNotAvailable) {
    event.reason = Reason::kNotGathered;
  } else if (answer != nullptr && !answer->allows(param)) {
    for (const KeptParam& candidate : answer->kept) {
      if (candidate.param != &param) continue;
      event.reason = candidate.reason;
      event.step = candidate.step;
    }
  } else {
    event.reason = Reason::kStillActive;
    event.value = param.ds_active_sub_modules.empty() ? -1 : param.ds_active_sub_modules.ids().front();
  }
  runtime_.emit(event);
}

void PartitionedParameterCoordinator::forget_active_backward(const Module& module) {
  std::erase_if(active_backward_, [&](const Module* other) { return other->ds_id == module.ds_id; });
}

Raised PartitionedParameterCoordinator::release_and_reset_all(Module& root) {
  const std::span<Param* const> params = root.params_below();
  for (Param* param : params) {
    if (registry_->contains(*param)) {
      if (runtime_.behaviour.partition_all_on_inflight == OnInflight::kRaise) {
        return through(raise(FailureKind::kStillInFlight, "RuntimeError",
                             "param " + ds_summary(*param, runtime_.behaviour, runtime_.world_size()) +
                                 " still in flight",
                             {param}),
                       "release_and_reset_all");
      }
      if (Raised raised = partitioner_.wait(*registry_->pop(*param))) {
        return through(std::move(raised), "release_and_reset_all");
      }
    }
    param->ds_active_sub_modules.clear();
    if (Raised raised = release_param(*param, Reason::kPartitionAll)) {
      return through(std::move(raised), "release_and_reset_all");
    }
  }
  for (const Param* param : params) {
    if (param->ds_status == ZeroParamStatus::kNotAvailable) continue;
    return through(
        raise(FailureKind::kExpectedReleased, "RuntimeError",
              ds_summary(*param, runtime_.behaviour, runtime_.world_size()) + " expected to be released",
              {param}),
        "release_and_reset_all");
  }
  if (runtime_.behaviour.n_available_zeroed == Availability::kAtReleaseAll) n_available_numel_ = 0;
  return nullptr;
}

Raised PartitionedParameterCoordinator::release_backward_leftovers() {
  while (!active_backward_.empty()) {
    Module& module = *active_backward_.back();
    active_backward_.pop_back();
    std::vector<Param*> params(module.param_set().begin(), module.param_set().end());
    for (Param* param : module.ds_recompute_parameters) {
      if (std::ranges::find(params, param) == params.end()) params.push_back(param);
    }
    module.ds_recompute_parameters.clear();
    std::ranges::sort(params, {}, &Param::set_order);
    for (Param* param : params) {
      param->ds_active_sub_modules.discard(module.ds_id);
      if (param->ds_persist || param->is_external_param) continue;
      if (Raised raised = release_param(*param, Reason::kLeftover)) {
        return through(std::move(raised), "release_backward_leftovers");
      }
    }
  }
  return nullptr;
}

}  // namespace zero3
