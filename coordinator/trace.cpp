#include "coordinator/trace.h"

#include <algorithm>

#include "coordinator/summary.h"

namespace zero3 {

Trace::Trace(const Runtime& runtime)
    : runtime_(runtime),
      mode_(runtime.behaviour.initial_mode == InitialMode::kInvalid ? TraceMode::kInvalid
                                                                    : TraceMode::kRecord) {}

Raised Trace::check(const Module& module, int64_t step, bool& diverged, std::string& message) const {
  diverged = false;
  if (!complete() || !runtime_.behaviour.mismatch_invalidates) return nullptr;
  const auto length = static_cast<int64_t>(submodule_order_.size());
  if (step < length && submodule_order_[static_cast<size_t>(step)] == &module) return nullptr;
  const std::string at = "Invalidate trace cache @ step " + std::to_string(step);
  if (length <= step) {
    if (runtime_.behaviour.trace_overrun == TraceOverrun::kIndexError) {
      return through(raise(FailureKind::kIndexError, "IndexError", "tuple index out of range"),
                     "trace_prologue");
    }
    diverged = true;
    message = at + " and module " + std::to_string(module.ds_id) + ": cache has only " +
              std::to_string(length) + " modules";
    return nullptr;
  }
  const Module* expected = submodule_order_[static_cast<size_t>(step)];
  diverged = true;
  message = at + ": expected module " + std::to_string(expected->ds_id) + ", but got module " +
            std::to_string(module.ds_id);
  return nullptr;
}

void Trace::record_module(Module& module, int64_t step) {
  submodule_order_.push_back(&module);
  if (runtime_.behaviour.param_trace == ParamTrace::kAtReset) recorded_steps_[module.ds_id].push_back(step);
}

void Trace::record_params(Module& module, int64_t step) {
  std::vector<Param*> params(module.param_set().begin(), module.param_set().end());
  std::ranges::sort(params, {}, &Param::ds_id);
  for (Param* param : params) param_order_.push_back({param, step});
}

void Trace::invalidate() {
  mode_ = TraceMode::kInvalid;
  submodule_order_.clear();
  param_order_.clear();
  if (runtime_.behaviour.invalidation_clears_step_deque) recorded_steps_.clear();
  queue_position_ = 0;
  queue_end_ = 0;
}

Raised Trace::finalise() {
  if (complete()) return nullptr;
  const Behaviour& behaviour = runtime_.behaviour;
  if (Raised raised = same_on_all_ranks(module_ids())) return raised;
  const auto check_params = [&]() -> Raised {
    std::vector<int64_t> ids;
    std::vector<int64_t> steps;
    for (const ParamInTrace& entry : param_order_) {
      ids.push_back(entry.param->ds_id);
      steps.push_back(entry.step_id_last_used_at);
    }
    if (Raised raised = same_on_all_ranks(ids)) return raised;
    return same_on_all_ranks(steps);
  };
  if (behaviour.rank_checks_always) {
    if (Raised raised = check_params()) return raised;
  }
  if (recording()) {
    if (behaviour.param_trace == ParamTrace::kAtReset) {
      if (Raised raised = build_param_order()) return raised;
    }
    if (!behaviour.rank_checks_always) {
      if (Raised raised = check_params()) return raised;
    }
    mode_ = TraceMode::kComplete;
  } else {
    mode_ = TraceMode::kRecord;
  }
  return nullptr;
}

void Trace::restart_queue() {
  queue_position_ = 0;
  queue_end_ = param_order_.size();
  recorded_steps_.clear();
}

Raised Trace::build_param_order() {
  param_order_.clear();
  for (Module* module : submodule_order_) {
    std::deque<int64_t>& steps = recorded_steps_[module->ds_id];
    if (steps.empty()) {
      return through(through(raise(FailureKind::kIndexError, "IndexError", "pop from an empty deque"),
                             "record_parameters"),
                     "construct_parameter_trace_from_module_trace");
    }
    const int64_t step = steps.front();
    steps.pop_front();
    record_params(*module, step);
  }
  return nullptr;
}

Raised Trace::same_on_all_ranks(const std::vector<int64_t>& own) const {
  const std::string rank = "rank" + std::to_string(runtime_.communicator.rank());
  std::vector<int64_t> of_rank0;
  if (runtime_.behaviour.rank_check_lengths) {
    const auto length = static_cast<int64_t>(own.size());
    if (Raised raised = runtime_.communicator.broadcast_ints(std::span(&length, 1), of_rank0)) return raised;
    if (of_rank0.front() != length) {
      Raised raised = through(raise(FailureKind::kDisagreement, "RuntimeError",
                                    "Detected a disagreement on list length between rank0 and " + rank +
                                        ": \n rank0: " + std::to_string(of_rank0.front()) + " \n " + rank +
                                        ": " + std::to_string(length)),
                              "assert_lst_len_same_as_other_ranks");
      return through(std::move(raised), "assert_ints_same_as_other_ranks");
    }
  }
  if (Raised raised = runtime_.communicator.broadcast_ints(own, of_rank0)) return raised;
  if (of_rank0 == own) return nullptr;
  const std::string theirs = python_list(of_rank0);
  const std::string ours = python_list(own);
  const std::string text =
      runtime_.behaviour.rank_check_lengths
          ? "Detected a disagreement on list contents between rank0 and " + rank +
                ": \n list length: " + std::to_string(own.size()) + "\n rank0: " + theirs + " \n " + rank +
                ": " + ours
          : "disagreement between rank0 and " + rank + ": rank0: " + theirs + ", " + rank + ": " + ours;
  return through(raise(FailureKind::kDisagreement, "RuntimeError", text), "assert_ints_same_as_other_ranks");
}

std::vector<int64_t> Trace::module_ids() const {
  std::vector<int64_t> ids;
  for (const Module* module : submodule_order_) ids.push_back(module->ds_id);
  return ids;
}

}  // namespace zero3
