// Trace, reset and the hooks' order; fetching is in partitioned_param_fetch.cpp, releasing in
// partitioned_param_release.cpp.
#include "coordinator/partitioned_param_coordinator.h"

#include "coordinator/summary.h"

namespace zero3 {

PartitionedParameterCoordinator::PartitionedParameterCoordinator(Runtime& runtime, Partitioner& partitioner,
                                                                 std::shared_ptr<InflightRegistry> registry)
    : runtime_(runtime),
      partitioner_(partitioner),
      registry_(std::move(registry)),
      trace_(runtime),
      release_rule_(runtime) {}

std::string_view PartitionedParameterCoordinator::mode_text() const {
  if (runtime_.behaviour.initial_mode == InitialMode::kRecordOnce)
    return trace_.complete() ? "True" : "False";
  switch (trace_.mode()) {
    case TraceMode::kRecord: return "RECORD";
    case TraceMode::kComplete: return "COMPLETE";
    case TraceMode::kInvalid: return "INVALID";
  }
  return "?";
}

Raised PartitionedParameterCoordinator::before_sub_module(Module& module, bool forward) {
  if (Raised raised = trace_prologue(module)) return raised;
  if (trace_.recording()) {
    trace_.record_module(module, step_id_);
    runtime_.emit({.kind = EventKind::kRecord, .module = &module, .step = step_id_, .forward = forward});
    const ParamTrace when = runtime_.behaviour.param_trace;
    if (when == ParamTrace::kAtPreHook || (when == ParamTrace::kAtPostForward && !forward)) {
      trace_.record_params(module, step_id_);
    }
  }
  Raised raised = fetch_sub_module(module, forward);
  if (runtime_.behaviour.leaf_fetch_lock) raised = through(std::move(raised), "_fetch_sub_module_impl");
  return through(std::move(raised), "fetch_sub_module");
}

Raised PartitionedParameterCoordinator::after_sub_module(Module& module, bool forward) {
  if (forward && trace_.recording() && runtime_.behaviour.param_trace == ParamTrace::kAtPostForward) {
    trace_.record_params(module, step_id_);
  }
  return through(release_sub_module(module, forward), "release_sub_module");
}

Raised PartitionedParameterCoordinator::trace_prologue(Module& module) {
  bool diverged = false;
  std::string message;
  if (Raised raised = trace_.check(module, step_id_, diverged, message)) return raised;
  if (!diverged) return nullptr;
  const InvalidationLine line = runtime_.behaviour.invalidation_line;
  const bool printed = line == InvalidationLine::kPrinted || (line == InvalidationLine::kPrintedIfAsked &&
                                                              runtime_.settings.log_trace_cache_warnings);
  if (printed && runtime_.communicator.rank() == 0) {
    runtime_.emit({.kind = EventKind::kPrint, .module = &module, .step = step_id_, .text = message});
  }
  const auto& order = trace_.submodule_order();
  const auto step = static_cast<size_t>(step_id_);
  runtime_.emit({.kind = EventKind::kInvalidate,
                 .module = &module,
                 .step = step_id_,
                 .value = step < order.size() ? order[step]->ds_id : -1,
                 .limit = static_cast<int64_t>(order.size())});
  return through(invalidate(), "trace_prologue");
}

Raised PartitionedParameterCoordinator::invalidate() {
  trace_.invalidate();
  ++round_;
  if (!runtime_.behaviour.invalidation_cleans_inflight) return nullptr;
  return through(clean_inflight_registry(), "_invalidate_trace");
}

Raised PartitionedParameterCoordinator::clean_inflight_registry() {
  for (size_t i = 0; i < registry_->entries().size(); ++i) {
    const InflightRegistry::Entry entry = registry_->entries()[i];
    if (entry.param == nullptr) continue;
    if (Raised raised = partitioner_.wait(*entry.handle))
      return through(std::move(raised), "_clean_inflight_param_registry");
    if (Raised raised = release_param(*entry.param, Reason::kCleaned)) {
      return through(std::move(raised), "_clean_inflight_param_registry");
    }
  }
  registry_->clear();
  return nullptr;
}

Raised PartitionedParameterCoordinator::reset_step() {
  runtime_.emit({.kind = EventKind::kReset, .step = step_id_});
  const Behaviour& behaviour = runtime_.behaviour;
  if (behaviour.reset_on_inflight == OnInflight::kClean) {
    if (Raised raised = clean_inflight_registry()) return through(std::move(raised), "reset_step");
  } else if (!registry_->empty()) {
    std::string text;
    std::vector<const Param*> params = registry_->params();
    for (const Param* param : params) {
      text += text.empty() ? "" : ", ";
      text += behaviour.inflight_form == SummaryForm::kDicts
                  ? ds_summary(*param, behaviour, runtime_.world_size())
                  : "<bound method Init._convert_to_deepspeed_param.<locals>.ds_summary of " +
                        parameter_repr(*param) + ">";
    }
    return through(raise(FailureKind::kInflightAtReset, "RuntimeError",
                         "still have inflight params [" + text + "]", std::move(params)),
                   "reset_step");
  }
  if (Raised raised = trace_.finalise()) return through(std::move(raised), "reset_step");
  trace_.restart_queue();
  ++round_;
  step_id_ = 0;
  if (behaviour.n_available_zeroed == Availability::kAtReset) n_available_numel_ = 0;
  runtime_.emit({.kind = EventKind::kResetDone, .text = mode_text()});
  return nullptr;
}

Raised PartitionedParameterCoordinator::hooks_registered_again() {
  if (!runtime_.behaviour.hook_registration_invalidates || trace_.mode() == TraceMode::kInvalid)
    return nullptr;
  runtime_.emit({.kind = EventKind::kInvalidate,
                 .step = step_id_,
                 .value = -1,
                 .limit = static_cast<int64_t>(trace_.submodule_order().size())});
  return invalidate();
}

}  // namespace zero3
