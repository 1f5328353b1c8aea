#include "coordinator/partitioner.h"

#include <algorithm>

#include "coordinator/summary.h"

namespace zero3 {
namespace {

constexpr const char* kFreeActiveText =
    "Cannot free a ZeRO-3 parameter while it is still active in submodules. This can happen if: (1) "
    "submodules have not "
    "released the parameter, or (2) you modified parameters inside a `GatheredParameters` context with "
    "`modifier_rank=None`. For case (2), use `modifier_rank=<rank>` to broadcast updates consistently across "
    "ranks. "
    "param=";

}  // namespace

AllGatherHandle& Partitioner::new_handle(std::span<Param* const> params) {
  if (free_handles_.empty()) {
    free_handles_.push_back(&handles_.emplace_back());
  }
  AllGatherHandle& handle = *free_handles_.back();
  free_handles_.pop_back();
  handle.params.assign(params.begin(), params.end());
  handle.requests.clear();
  handle.complete = false;
  handle.references = static_cast<int>(params.size());
  return handle;
}

Raised Partitioner::launch(std::span<Param* const> params, Reason reason, const Module* module,
                           AllGatherHandle*& handle) {
  const Behaviour& behaviour = runtime_.behaviour;
  const bool skips_gather = behaviour.world_one_skips_gather && runtime_.world_size() == 1;
  for (Param* param : params) {
    if (param->ds_status != ZeroParamStatus::kNotAvailable) {
      const std::string prefix = skips_gather && behaviour.prologue_only_if_present
                                     ? "expect param.ds_status == ZeroParamStatus.NOT_AVAILABLE, got"
                                     : "";
      return through(raise(FailureKind::kAlreadyGathering, "RuntimeError",
                           prefix + ds_summary(*param, behaviour, runtime_.world_size()), {param}),
                     "all_gather_coalesced");
    }
    param->ds_status = ZeroParamStatus::kInflight;
  }
  AllGatherHandle& launched = new_handle(params);
  std::ranges::sort(launched.params, {}, &Param::ds_id);
  const bool singly = runtime_.settings.allgather_sequential || launched.params.size() == 1;
  for (Param* param : launched.params) {
    param->data_is_full = false;
    if (skips_gather || singly) make_whole(*param, skips_gather);
  }
  runtime_.emit(
      {.kind = EventKind::kAllGather, .reason = reason, .module = module, .params = launched.params});
  if (!skips_gather) {
    if (Raised raised = request(launched, singly)) return raised;
  }
  handle = &launched;
  return nullptr;
}

// One collective for each param, or one for all.
Raised Partitioner::request(AllGatherHandle& handle, bool singly) {
  const size_t at_a_time = singly ? 1 : handle.params.size();
  const std::span<Param* const> params = handle.params;
  for (size_t first = 0; first < params.size(); first += at_a_time) {
    if (Raised raised = runtime_.communicator.launch_all_gather(params.subspan(first, at_a_time),
                                                                handle.requests.emplace_back(-1)))
      return raised;
  }
  return nullptr;
}

Raised Partitioner::launch_singly(std::span<Param* const> params, Reason reason, const Module* module,
                                  std::vector<AllGatherHandle*>& handles) {
  scratch_.clear();
  for (Param* param : params) {
    if (param->ds_status != ZeroParamStatus::kNotAvailable) continue;
    param->ds_status = ZeroParamStatus::kInflight;
    make_whole(*param);
    scratch_.push_back(param);
  }
  if (scratch_.empty()) return nullptr;
  runtime_.emit({.kind = EventKind::kAllGather, .reason = reason, .module = module, .params = scratch_});
  for (Param*& param : scratch_) {
    AllGatherHandle& handle = new_handle(std::span(&param, 1));
    if (Raised raised = request(handle, true)) return raised;
    handles.push_back(&handle);
  }
  return nullptr;
}

Raised Partitioner::wait(AllGatherHandle& handle) {
  const bool singly = !handle.requests.empty() && handle.requests.size() == handle.params.size();
  if (!handle.complete || (singly && runtime_.behaviour.single_handle_waits_again)) {
    if (Raised raised = singly ? wait_for_each(handle) : wait_for_all(handle)) return raised;
    handle.complete = true;
  }
  if (--handle.references == 0) free_handles_.push_back(&handle);
  return nullptr;
}

Raised Partitioner::wait_for_each(AllGatherHandle& handle) {
  for (size_t i = 0; i < handle.params.size(); ++i) {
    if (!handle.complete) {
      if (Raised raised = runtime_.communicator.wait(handle.requests[i])) return raised;
    }
    handle.params[i]->ds_status = ZeroParamStatus::kAvailable;
  }
  return nullptr;
}

Raised Partitioner::wait_for_all(AllGatherHandle& handle) {
  if (!handle.requests.empty()) {
    if (Raised raised = runtime_.communicator.wait(handle.requests.front())) return raised;
  }
  const bool coalesced = handle.params.size() > 1;
  for (Param* param : handle.params) {
    if (coalesced && param->ds_status != ZeroParamStatus::kInflight) {
      return through(raise(FailureKind::kNotInflight, "AssertionError",
                           "expected param " + ds_summary(*param, runtime_.behaviour, runtime_.world_size()) +
                               " to be inflight",
                           {param}),
                     "wait");
    }
    if (coalesced && param->ds_numel == 0 && !handle.requests.empty()) {
      Raised raised = through(raise(FailureKind::kEmptyWeight, "RuntimeError",
                                    "torch.cat(): expected a non-empty list of Tensors", {param}),
                              "wait");
      return runtime_.behaviour.handles_are_grouped ? through(std::move(raised), "wait") : std::move(raised);
    }
    param->ds_status = ZeroParamStatus::kAvailable;
    if (!param->data_is_full) make_whole(*param);
  }
  return nullptr;
}

Raised Partitioner::all_gather(std::span<Param* const> params, Reason reason, const Module* module) {
  scratch_.clear();
  const bool skips_gather = runtime_.behaviour.world_one_skips_gather && runtime_.world_size() == 1;
  for (Param* param : params) {
    if (param->ds_status != ZeroParamStatus::kNotAvailable) continue;
    const bool repeated = std::ranges::find(scratch_, param) != scratch_.end();
    if (!repeated) scratch_.push_back(param);
    if (repeated && skips_gather) return gathered_twice(*param);
  }
  if (scratch_.empty()) return nullptr;
  runtime_.emit({.kind = EventKind::kAllGather, .reason = reason, .module = module, .params = scratch_});
  if (!skips_gather) {
    Communicator::Request request = -1;
    if (Raised raised = runtime_.communicator.launch_all_gather(scratch_, request)) return raised;
    if (Raised raised = runtime_.communicator.wait(request)) return raised;
  }
  for (Param* param : scratch_) {
    param->ds_status = ZeroParamStatus::kAvailable;
    make_whole(*param, skips_gather);
  }
  return nullptr;
}

void Partitioner::make_whole(Param& param, bool shares_partition) {
  param.data_is_full = true;
  if (runtime_.tensors != nullptr) runtime_.tensors->make_whole(param, shares_partition);
}

// _no_gather_coalesced marks each param before it comes to the same one again.
Raised Partitioner::gathered_twice(Param& param) {
  for (Param* marked : scratch_) marked->ds_status = ZeroParamStatus::kInflight;
  Raised raised = raise(FailureKind::kAlreadyGathering, "RuntimeError",
                        ds_summary(param, runtime_.behaviour, runtime_.world_size()), {&param});
  return through(std::move(raised),
                 {"_no_gather_coalesced", "_allgather_params_coalesced", "_all_gather", "all_gather"});
}

Raised Partitioner::partition(std::span<Param* const> params, Reason reason) {
  for (Param* param : params) {
    const bool was_available = param->ds_status == ZeroParamStatus::kAvailable;
    if (Raised raised = partition_one(*param))
      return through(through(std::move(raised), "_partition"), "partition");
    param->ds_status = ZeroParamStatus::kNotAvailable;
    if (was_available) {
      runtime_.emit({.kind = EventKind::kRelease, .reason = reason, .params = std::span(&param, 1)});
    }
  }
  return nullptr;
}

Raised Partitioner::partition_one(Param& param) {
  if (param.ds_status == ZeroParamStatus::kInflight) {
    return through(raise(FailureKind::kPartitionInFlight, "AssertionError",
                         " " + parameter_repr(param) + " Cannot " +
                             std::string(runtime_.behaviour.partition_word) + " a param in flight",
                         {&param}),
                   "_partition_param");
  }
  if (param.ds_status == ZeroParamStatus::kAvailable) return through(free_param(param), "_partition_param");
  return nullptr;
}

Raised Partitioner::free_param(Param& param) {
  const FreeActive check = runtime_.behaviour.free_active;
  if (check != FreeActive::kUnchecked && !param.ds_active_sub_modules.empty()) {
    const std::string summary = ds_summary(param, runtime_.behaviour, runtime_.world_size());
    const bool prose = check == FreeActive::kRuntimeError;
    return through(raise(FailureKind::kFreeActive, prose ? "RuntimeError" : "AssertionError",
                         prose ? kFreeActiveText + summary : summary, {&param}),
                   "free_param");
  }
  param.data_is_full = false;
  if (runtime_.tensors != nullptr) runtime_.tensors->free(param);
  return nullptr;
}

}  // namespace zero3
