// The parts of Engine that hold params gathered for a while: GatheredParameters, unwrap_model_for_generation.
#include <algorithm>

#include "coordinator/engine.h"
#include "coordinator/summary.h"

namespace zero3 {
namespace {

std::vector<Param*> without_duplicates(std::vector<Param*> params) {
  std::ranges::sort(params, {}, &Param::ds_id);
  params.erase(std::unique(params.begin(), params.end()), params.end());
  return params;
}

}  // namespace

Raised Engine::gather_enter(std::vector<Param*> params, int modifier_rank) {
  const Behaviour& behaviour = runtime_.behaviour;
  if (behaviour.gathered_sorts) params = without_duplicates(std::move(params));
  if (behaviour.nested_gather_check) {
    std::vector<int64_t> overlapping;
    std::vector<const Param*> named;
    for (const Param* param : params) {
      if (param->gathered_context_depth == 0) continue;
      overlapping.push_back(param->ds_id);
      named.push_back(param);
    }
    if (!overlapping.empty()) {
      return through(
          raise(FailureKind::kNestedGather, "RuntimeError",
                "Nested GatheredParameters contexts cannot overlap parameters; parameter ds_ids already "
                "gathered by an outer context: " +
                    python_list(overlapping),
                std::move(named)),
          "__enter__");
    }
  }
  if (Raised raised = partitioner_.all_gather(params, Reason::kGatherContext))
    return through(std::move(raised), "__enter__");
  for (Param* param : params) ++param->gathered_context_depth;
  contexts_.push_back({std::move(params), modifier_rank});
  return nullptr;
}

Raised Engine::gather_exit() {
  const GatherContext context = std::move(contexts_.back());
  contexts_.pop_back();
  const Behaviour& behaviour = runtime_.behaviour;
  Raised raised;
  if (context.modifier_rank >= 0) {
    for (const Param* param : context.params) {
      if (!raised) raised = runtime_.communicator.broadcast(*param, context.modifier_rank);
    }
  }
  const bool partitions = context.modifier_rank >= 0 || behaviour.gathered_none_partitions ||
                          behaviour.gathered_always_partitions;
  if (!raised && runtime_.tensors != nullptr && context.modifier_rank >= 0) {
    for (Param* param : context.params) {
      if (param->ds_status == ZeroParamStatus::kAvailable) runtime_.tensors->update_partition(*param);
    }
  }
  if (!raised && partitions) {
    raised = partitioner_.partition(context.params, Reason::kContextExit);
    if (behaviour.nested_gather_check)
      raised = through(through(std::move(raised), "_partition_params"), "_exit");
  }
  for (Param* param : context.params) --param->gathered_context_depth;
  return through(std::move(raised), "__exit__");
}

Raised Engine::unwrap_enter() {
  if (!runtime_.behaviour.has_unwrap) {
    return raise(FailureKind::kMissingMethod, "ImportError",
                 "cannot import name 'unwrap_model_for_generation' from 'deepspeed.runtime.zero'");
  }
  const auto params = offload_.parameters();
  if (Raised raised = gather_enter({params.begin(), params.end()}, -1))
    return through(std::move(raised), "unwrap_model_for_generation");
  offload_.remove_module_hooks();
  return nullptr;
}

Raised Engine::unwrap_exit() {
  Raised raised = offload_.register_module_hooks();
  if (!raised) raised = gather_exit();
  return through(std::move(raised), "unwrap_model_for_generation");
}

Raised Engine::register_hooks_again() {
  offload_.remove_module_hooks();
  return offload_.register_module_hooks();
}

}  // namespace zero3
