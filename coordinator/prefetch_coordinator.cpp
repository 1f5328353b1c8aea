#include "coordinator/prefetch_coordinator.h"

#include <algorithm>

namespace zero3 {
namespace {

constexpr int64_t kNoReuse = 1'000'000'000'000;

Raised list_index_out_of_range(std::string_view function) {
  return through(raise(FailureKind::kIndexError, "IndexError", "list index out of range"), function);
}

}  // namespace

Raised PrefetchCoordinator::before_sub_module(Module& module, bool forward) {
  if (!trace_completed_) {
    trace_.push_back(module.ds_id);
    id_to_sub_module_[module.ds_id] = &module;
    runtime_.emit({.kind = EventKind::kRecord, .module = &module, .step = step_id_, .forward = forward});
  }
  if (Raised raised = fetch_sub_module(module, forward))
    return through(std::move(raised), "fetch_sub_module");
  if (Raised raised = prefetch_next_sub_modules(module))
    return through(std::move(raised), "prefetch_next_sub_modules");
  most_recent_step_[module.ds_id] = step_id_++;
  return nullptr;
}

Raised PrefetchCoordinator::after_sub_module(Module& module, bool) {
  return through(release_sub_module(module), "release_sub_module");
}

Raised PrefetchCoordinator::reset_step() {
  runtime_.emit({.kind = EventKind::kStepZero, .step = step_id_});
  step_id_ = 0;
  return nullptr;
}

Raised PrefetchCoordinator::fetch_sub_module(Module& module, bool forward) {
  runtime_.emit({.kind = EventKind::kFetch, .module = &module, .step = step_id_, .forward = forward});
  scratch_.clear();
  bool params_in_flight = false;
  for (Param* param : module.params()) {
    ++param->active_count;
    if (param->ds_status == ZeroParamStatus::kNotAvailable) {
      scratch_.push_back(param);
      available_numel_ += param->ds_numel;
    }
    if (param->ds_status == ZeroParamStatus::kInflight) params_in_flight = true;
  }
  const bool needed = !scratch_.empty();
  if (runtime_.behaviour.gathered_singly) {
    if (Raised raised = launch(scratch_, Reason::kNeeded, module)) return raised;
  } else if (Raised raised = partitioner_.all_gather(scratch_, Reason::kNeeded, &module)) {
    return raised;
  }
  if (needed || params_in_flight) {
    if (Raised raised = synchronize_communication()) return raised;
  }
  for (Param* param : module.own_params) param->ds_status = ZeroParamStatus::kAvailable;
  return nullptr;
}

// Lists every param it was given, and has a handle for those that it launched.
Raised PrefetchCoordinator::launch(std::span<Param* const> params, Reason reason, Module& module) {
  params_in_flight_ += params.size();
  return partitioner_.launch_singly(params, reason, &module, in_flight_);
}

Raised PrefetchCoordinator::synchronize_communication() {
  if (params_in_flight_ != in_flight_.size()) {
    return through(raise(FailureKind::kAlreadyGathering, "AssertionError", ""), "_synchronize_communication");
  }
  for (AllGatherHandle* handle : in_flight_) {
    runtime_.emit({.kind = EventKind::kWait, .params = handle->params, .step = step_id_});
    if (Raised raised = partitioner_.wait(*handle))
      return through(std::move(raised), "_synchronize_communication");
  }
  in_flight_.clear();
  params_in_flight_ = 0;
  return nullptr;
}

Raised PrefetchCoordinator::prefetch_next_sub_modules(Module& module) {
  Reason reason = Reason::kNoTrace;
  scratch_.clear();
  if (trace_completed_) {
    if (!in_flight_.empty()) {
      reason = Reason::kAlreadyInFlight;
    } else if (available_numel_ >= runtime_.settings.max_live_numel) {
      reason = Reason::kLiveLimit;
    } else if (Raised raised = get_params_to_prefetch(module, reason)) {
      return raised;
    }
  }
  int64_t numel = 0;
  for (const Param* param : scratch_) numel += param->ds_numel;
  runtime_.emit({.kind = EventKind::kPrefetchEnd,
                 .reason = reason,
                 .module = &module,
                 .step = step_id_,
                 .value = numel,
                 .limit = runtime_.settings.prefetch_bucket_numel});
  const std::vector<Param*> chosen = scratch_;
  if (Raised raised = launch(chosen, Reason::kPrefetched, module)) return raised;
  available_numel_ += numel;
  return nullptr;
}

// Into scratch_.
Raised PrefetchCoordinator::get_params_to_prefetch(const Module& module, Reason& reason) {
  if (step_id_ >= static_cast<int64_t>(trace_.size()))
    return list_index_out_of_range("get_params_to_prefetch");
  if (module.ds_id != trace_[static_cast<size_t>(step_id_)]) {
    reason = Reason::kOtherModule;
    return nullptr;
  }
  int64_t total_numel = 0;
  for (auto step = static_cast<size_t>(step_id_); step < trace_.size(); ++step) {
    const Module& upcoming = *id_to_sub_module_.at(trace_[step]);
    for (Param* param : upcoming.params()) {
      if (param->ds_status != ZeroParamStatus::kNotAvailable) continue;
      if (std::ranges::find(scratch_, param) != scratch_.end()) continue;
      scratch_.push_back(param);
      total_numel += param->ds_numel;
      runtime_.emit({.kind = EventKind::kPrefetch,
                     .module = &upcoming,
                     .params = std::span(&param, 1),
                     .step = static_cast<int64_t>(step)});
      if (total_numel >= runtime_.settings.prefetch_bucket_numel) {
        reason = Reason::kBucketFull;
        return nullptr;
      }
    }
  }
  reason = Reason::kQueueEmpty;
  return nullptr;
}

Raised PrefetchCoordinator::release_sub_module(Module& module) {
  for (Param* param : module.params()) {
    --param->active_count;
    bool keep = false;
    // DeepSpeed's own log line asks this for the params it does not release, too: the answer is cached by step, so
    // asking decides outcomes.
    if (Raised raised = keep_for_later(module, keep)) return through(std::move(raised), "_keep_for_later");
    if (param->active_count == 0 && !keep && !param->ds_persist) {
      available_numel_ -= param->ds_numel;
      const Reason reason = trace_completed_ ? Reason::kNotReused : Reason::kTraceIncomplete;
      if (Raised raised = partitioner_.partition(std::span(&param, 1), reason)) return raised;
    } else {
      const Reason reason = param->active_count != 0 ? Reason::kStillActive
                            : keep                   ? Reason::kReusedSoon
                                                     : Reason::kPersists;
      runtime_.emit({.kind = EventKind::kKeep,
                     .reason = reason,
                     .module = &module,
                     .params = std::span(&param, 1),
                     .value = -1});
    }
  }
  return nullptr;
}

Raised PrefetchCoordinator::keep_for_later(const Module& module, bool& keep) {
  keep = false;
  const int64_t limit = runtime_.settings.max_reuse_distance_numel;
  if (!trace_completed_ || (runtime_.behaviour.zero_reuse_distance_never_keeps && limit == 0)) return nullptr;
  int64_t distance_numel = 0;
  if (Raised raised = get_reuse_distance_in_numel(module, distance_numel)) return raised;
  keep = distance_numel < limit;
  return nullptr;
}

Raised PrefetchCoordinator::get_reuse_distance_in_numel(const Module& module, int64_t& distance_numel) {
  distance_numel = kNoReuse;
  const int64_t module_step = most_recent_step_.at(module.ds_id);
  if (module_step >= static_cast<int64_t>(trace_.size())) {
    return list_index_out_of_range("get_reuse_distance_in_numel");
  }
  if (trace_[static_cast<size_t>(module_step)] != module.ds_id) return nullptr;
  const auto cached = reuse_numel_for_step_.find(module_step);
  if (cached != reuse_numel_for_step_.end()) {
    distance_numel = cached->second;
    return nullptr;
  }
  const auto first = static_cast<size_t>(step_id_);
  for (size_t step = first; step < trace_.size(); ++step) {
    if (trace_[step] != module.ds_id) continue;
    distance_numel = distance_in_numel(first, step);
    break;
  }
  reuse_numel_for_step_[module_step] = distance_numel;
  return nullptr;
}

int64_t PrefetchCoordinator::distance_in_numel(size_t first_step, size_t last_step) const {
  int64_t numel = 0;
  for (size_t step = first_step; step < last_step; ++step) {
    for (const Param* param : id_to_sub_module_.at(trace_[step])->params()) numel += param->ds_numel;
  }
  return numel;
}

Raised PrefetchCoordinator::release_and_reset_all(Module& root) {
  for (Param* param : root.params_below()) {
    param->active_count = 0;
    if (param->ds_status != ZeroParamStatus::kAvailable) continue;
    available_numel_ -= param->ds_numel;
    if (Raised raised = partitioner_.partition(std::span(&param, 1), Reason::kEndOfBackward)) {
      return through(std::move(raised), "release_and_reset_parameter");
    }
  }
  return nullptr;
}

}  // namespace zero3
