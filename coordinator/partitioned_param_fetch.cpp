// fetch_sub_module: gather what the module needs, wait for it, then prefetch along the trace.
#include <algorithm>

#include "coordinator/partitioned_param_coordinator.h"
#include "coordinator/summary.h"

namespace zero3 {
namespace {

constexpr int64_t kNeverFetched = -10'000'000'000;

}  // namespace

bool PartitionedParameterCoordinator::is_marked(const Param& param) const {
  const auto id = static_cast<size_t>(param.ds_id);
  return id < marks_.size() && marks_[id] == mark_;
}

void PartitionedParameterCoordinator::mark(const Param& param) {
  const auto id = static_cast<size_t>(param.ds_id);
  if (id >= marks_.size()) marks_.resize(id + 1);
  marks_[id] = mark_;
}

int64_t PartitionedParameterCoordinator::fetched_for(const Param& param) const {
  const auto id = static_cast<size_t>(param.ds_id);
  return id < fetched_for_.size() && fetched_for_[id].round == round_ ? fetched_for_[id].step : kNeverFetched;
}

void PartitionedParameterCoordinator::set_fetched_for(const Param& param, int64_t step) {
  const auto id = static_cast<size_t>(param.ds_id);
  if (id >= fetched_for_.size()) fetched_for_.resize(id + 1);
  fetched_for_[id] = {step, round_};
}

Raised PartitionedParameterCoordinator::fetch_sub_module(Module& module, bool forward) {
  runtime_.emit({.kind = EventKind::kFetch, .module = &module, .step = step_id_, .forward = forward});
  if (!forward && runtime_.behaviour.active_backward_stack) {
    const auto same_id = [&](const Module* other) { return other->ds_id == module.ds_id; };
    const auto place = std::ranges::find_if(active_backward_, same_id);
    if (place != active_backward_.end()) {
      *place = &module;
    } else {
      active_backward_.push_back(&module);
    }
  }
  int64_t missing_numel = 0;
  bool missing = false;
  for (const Param* param : module.param_set()) {
    if (param->ds_status != ZeroParamStatus::kNotAvailable) continue;
    missing = true;
    missing_numel += param->partition_numel(runtime_.world_size());
  }
  if (runtime_.behaviour.gather_needs_missing_partition ? missing_numel > 0 : missing) {
    if (Raised raised = all_gather_params(module.param_set(), Reason::kNeeded, module)) return raised;
  }
  for (Param* param : module.param_set()) {
    param->ds_active_sub_modules.add(module.ds_id);
    attribute_recompute(*param, forward);
    if (Raised raised = wait_for(module, *param)) return raised;
  }
  if (trace_.complete()) {
    if (Raised raised = prefetch(module)) return raised;
  } else {
    runtime_.emit(
        {.kind = EventKind::kPrefetchEnd, .reason = Reason::kNoTrace, .module = &module, .step = step_id_});
  }
  ++step_id_;
  return nullptr;
}

void PartitionedParameterCoordinator::attribute_recompute(Param& param, bool forward) {
  if (!forward || !recomputing_ || param.requires_grad || active_backward_.empty()) return;
  Module& owner = *active_backward_.back();
  if (std::ranges::find(owner.ds_recompute_parameters, &param) == owner.ds_recompute_parameters.end()) {
    owner.ds_recompute_parameters.push_back(&param);
  }
  param.ds_active_sub_modules.add(owner.ds_id);
}

Raised PartitionedParameterCoordinator::wait_for(Module& module, Param& param) {
  if (AllGatherHandle* handle = registry_->pop(param)) {
    Param* waited = &param;
    runtime_.emit(
        {.kind = EventKind::kWait, .module = &module, .params = std::span(&waited, 1), .step = step_id_});
    if (Raised raised = partitioner_.wait(*handle)) return raised;
  }
  if (param.ds_status == ZeroParamStatus::kAvailable) return nullptr;
  return raise(FailureKind::kNotAvailable, "AssertionError",
               ds_summary(param, runtime_.behaviour, runtime_.world_size()), {&param});
}

Raised PartitionedParameterCoordinator::prefetch(Module& module) {
  const Behaviour& behaviour = runtime_.behaviour;
  const auto end = [&](Reason reason, int64_t chosen, int64_t budget) {
    runtime_.emit({.kind = EventKind::kPrefetchEnd,
                   .reason = reason,
                   .module = &module,
                   .step = step_id_,
                   .value = chosen,
                   .limit = budget});
  };
  if (behaviour.prefetch_requires_training && !module.training) {
    end(Reason::kEvaluating, 0, 0);
    return nullptr;
  }
  if (Raised raised = discard_from_queue(module)) return raised;
  const int64_t bucket = runtime_.settings.prefetch_bucket_numel;
  if (behaviour.zero_bucket_disables && bucket <= 0) {
    end(Reason::kBucketZero, 0, 0);
    return nullptr;
  }
  const int64_t live = runtime_.settings.max_live_numel - n_available_numel_;
  const int64_t budget = std::min(live, bucket);
  int64_t chosen_numel = 0;
  const Reason reason = fill_bucket(budget, chosen_numel);
  const bool gathers = !behaviour.gather_needs_missing_partition || chosen_numel > 0;
  if (gathers) announce_prefetch();
  end(reason == Reason::kBucketFull && live < bucket ? Reason::kLiveLimit : reason, chosen_numel, budget);
  return gathers && !chosen_.empty() ? all_gather_params(chosen_, Reason::kPrefetched, module) : nullptr;
}

// Pops the queue entries of the module's own params, so that they are not prefetched later.
Raised PartitionedParameterCoordinator::discard_from_queue(Module& module) {
  pending_.clear();
  discarded_.clear();
  ++mark_;
  for (Param* param : module.param_set()) {
    if (fetched_for(*param) < step_id_) pending_.push_back(param);
  }
  while (!trace_.queue_empty() && discarded_.size() < pending_.size()) {
    const ParamInTrace& entry = trace_.pop_queue();
    set_fetched_for(*entry.param, entry.step_id_last_used_at);
    if (is_marked(*entry.param)) continue;
    mark(*entry.param);
    discarded_.push_back(entry.param);
  }
  const bool same = discarded_.size() == pending_.size() &&
                    std::ranges::all_of(pending_, [this](const Param* param) { return is_marked(*param); });
  if (same) return nullptr;
  std::ranges::sort(discarded_, {}, &Param::set_order);
  return tracing_error(module, pending_, discarded_);
}

// Walks the queue until `budget` elements are chosen into chosen_. Params that need no gather are consumed for free:
// their later use is the one that ReleaseRule calls skipped.
Reason PartitionedParameterCoordinator::fill_bucket(int64_t budget, int64_t& chosen_numel) {
  const Behaviour& behaviour = runtime_.behaviour;
  chosen_.clear();
  chosen_steps_.clear();
  ++mark_;
  while (chosen_numel < budget) {
    if (trace_.queue_empty()) return Reason::kQueueEmpty;
    const ParamInTrace& entry = trace_.pop_queue();
    Param* param = entry.param;
    const int64_t step = entry.step_id_last_used_at;
    set_fetched_for(*param, behaviour.keeps_later_fetched_step ? std::max(fetched_for(*param), step) : step);
    const bool candidate =
        behaviour.prefetch_takes_available || param->ds_status == ZeroParamStatus::kNotAvailable;
    if (!candidate || is_marked(*param)) continue;
    mark(*param);
    chosen_.push_back(param);
    chosen_steps_.push_back(step);
    chosen_numel += param->ds_numel;
  }
  return Reason::kBucketFull;
}

// One event for each chosen param that a gather will bring, with the module it is for.
void PartitionedParameterCoordinator::announce_prefetch() {
  const auto& order = trace_.submodule_order();
  for (size_t i = 0; i < chosen_.size(); ++i) {
    if (chosen_[i]->ds_status != ZeroParamStatus::kNotAvailable) continue;
    const auto place = static_cast<size_t>(chosen_steps_[i]);
    runtime_.emit({.kind = EventKind::kPrefetch,
                   .module = place < order.size() ? order[place] : nullptr,
                   .params = std::span(&chosen_[i], 1),
                   .step = chosen_steps_[i]});
  }
}

Raised PartitionedParameterCoordinator::all_gather_params(std::span<Param* const> params, Reason reason,
                                                          const Module& module) {
  missing_.clear();
  int64_t numel = 0;
  for (Param* param : params) {
    if (param->ds_status != ZeroParamStatus::kNotAvailable) continue;
    missing_.push_back(param);
    numel += param->ds_numel;
  }
  if (missing_.empty()) return nullptr;
  n_available_numel_ += numel;
  AllGatherHandle* handle = nullptr;
  if (Raised raised = partitioner_.launch(missing_, reason, &module, handle)) return raised;
  std::ranges::sort(missing_, {}, &Param::set_order);
  for (Param* param : missing_) {
    if (registry_->contains(*param)) {
      Raised raised = raise(
          FailureKind::kAlreadyInRegistry, "RuntimeError",
          ds_summary(*param, runtime_.behaviour, runtime_.world_size()) + " already in registry", {param});
      raised = through(std::move(raised), "__setitem__");
      if (runtime_.behaviour.gathers_in_groups) raised = through(std::move(raised), "__all_gather_params_");
      return through(std::move(raised), "__all_gather_params");
    }
    registry_->insert(*param, *handle);
  }
  return nullptr;
}

Raised PartitionedParameterCoordinator::tracing_error(const Module& module,
                                                      const std::vector<Param*>& expected,
                                                      const std::vector<Param*>& got) const {
  const Behaviour& behaviour = runtime_.behaviour;
  std::vector<const Param*> named;
  const auto tuple = [&](const std::vector<Param*>& params) {
    std::string text;
    for (const Param* param : params) {
      text += text.empty() ? "" : ", ";
      text += ds_summary(*param, behaviour, runtime_.world_size(), behaviour.tracing_error_debug_names);
      named.push_back(param);
    }
    return "(" + text + (params.size() == 1 ? ",)" : ")");
  };
  const bool lines = behaviour.tracing_error_names_module;
  std::string text = "tracing error at step " + std::to_string(step_id_) + ": ";
  if (lines) {
    text += "\nmodule id: " + std::to_string(module.ds_id) +
            ", training: " + (module.training ? "True" : "False") + "\n";
  }
  text += "expected the next " + std::to_string(expected.size()) +
          " parameters in the parameter fetch queue to be " + tuple(expected) + " ";
  text += lines ? "\nbut got \n " : "but got ";
  text += tuple(got) + ".";
  return raise(FailureKind::kTracingError, "RuntimeError", text, std::move(named));
}

}  // namespace zero3
