#include "coordinator/engine.h"

namespace zero3 {
namespace {

constexpr const char* kOffloadClass = "DeepSpeedZeRoOffload";
constexpr const char* kEngineClass = "DeepSpeedEngine";

}  // namespace

Engine::Engine(Process& process, Module& root, const Behaviour& behaviour, const Settings& settings,
               Communicator& communicator, Observer* observer, Options options)
    : runtime_{behaviour, settings, communicator, observer},
      options_(options),
      partitioner_(runtime_),
      offload_(process, root, runtime_, partitioner_),
      forward_pass_(process, runtime_, partitioner_) {}

Raised Engine::forward(std::span<const Call> root_children, bool grad_enabled) {
  Call call{.module = &offload_.root()};
  call.children.assign(root_children.begin(), root_children.end());
  if (Raised raised =
          forward_pass_.run(std::span(&call, 1), grad_enabled, options_.input_requires_grad, true)) {
    return raised;
  }
  if (grad_enabled || !runtime_.behaviour.no_grad_engine_reset) return nullptr;
  return through(offload_.coordinator(true).reset_step(), "forward");
}

Raised Engine::forward_direct(std::span<const Call> calls, bool grad_enabled) {
  return forward_pass_.run(calls, grad_enabled, options_.input_requires_grad, false);
}

Raised Engine::backward() {
  const Behaviour& behaviour = runtime_.behaviour;
  if (!options_.with_optimizer && behaviour.offload_is_optimizer)
    return missing_method(kOffloadClass, "backward");
  if (Raised raised = forward_pass_.backward()) return raised;
  if (behaviour.partition_all == PartitionAll::kEndOfBackward) {
    if (Raised raised = offload_.partition_all_parameters()) return through(std::move(raised), "backward");
  }
  if (behaviour.backward_end_reset) {
    if (Raised raised = offload_.reset_after_backward()) return through(std::move(raised), "backward");
  }
  if (Raised raised = reduce_gradients()) return raised;
  if (!behaviour.active_backward_stack) return nullptr;
  return through(offload_.coordinator(true).release_backward_leftovers(), "backward_epilogue");
}

Raised Engine::reduce_gradients() {
  const int cycle = runtime_.settings.gradient_accumulation_steps;
  if ((micro_steps_ + 1) % cycle == 0) gradients_averaged_ = true;
  if (forward_pass_.gradients().empty()) return nullptr;
  return runtime_.communicator.reduce_scatter(forward_pass_.gradients());
}

Raised Engine::step(bool overflow) {
  if (!options_.with_optimizer) {
    return raise(FailureKind::kMissingMethod, "AssertionError",
                 "must provide optimizer during init in order to use step");
  }
  const int cycle = runtime_.settings.gradient_accumulation_steps;
  const bool boundary = (micro_steps_ + 1) % cycle == 0;
  if (boundary) {
    if (Raised raised = optimizer_step(overflow)) return through(std::move(raised), "step");
  }
  ++micro_steps_;
  return nullptr;
}

Raised Engine::optimizer_step(bool overflow) {
  const Behaviour& behaviour = runtime_.behaviour;
  ParamCoordinator& coordinator = offload_.coordinator(true);
  coordinator.finish_tracing();
  if (behaviour.step_reset) {
    if (Raised raised = coordinator.reset_step()) return raised;
  }
  const bool v1 = behaviour.coordinator == Coordinator::kPrefetch;
  if (behaviour.partition_all == PartitionAll::kStartOfStep) {
    if (Raised raised = offload_.partition_all_parameters())
      return through(std::move(raised), "_partition_all_parameters");
  }
  if (!gradients_averaged_) {
    Raised raised = raise(FailureKind::kNoGradient, "TypeError", "'NoneType' object is not iterable");
    if (v1) {
      raised = through(through(std::move(raised), "has_overflow_partitioned_grads_serial"), "has_overflow");
      return through(std::move(raised), "_check_overflow");
    }
    return through(through(std::move(raised), "get_grad_norm_direct"), "_get_norm_groups");
  }
  gradients_averaged_ = false;
  if (overflow) return nullptr;
  return through(gather_persistent(), "_post_step");
}

Raised Engine::gather_persistent() {
  return partitioner_.all_gather(offload_.persistent_parameters(), Reason::kPersistent);
}

void Engine::train(bool mode) {
  for (Module* module : offload_.modules()) module->training = mode;
}

Raised Engine::missing_method(const std::string& object, const std::string& method) const {
  return through(raise(FailureKind::kMissingMethod, "AttributeError",
                       "'" + object + "' object has no attribute '" + method + "'"),
                 "__getattr__");
}

// The optimizer object's prologue; an engine without optimizer has none, from v0.6.6 on.
Raised Engine::checkpoint_prologue() {
  const Behaviour& behaviour = runtime_.behaviour;
  if (!options_.with_optimizer && behaviour.offload_is_optimizer) {
    if (behaviour.prologue_only_if_present) return nullptr;
    return raise(FailureKind::kMissingMethod, "AttributeError",
                 std::string("'") + kOffloadClass + "' object has no attribute 'checkpoint_event_prologue'");
  }
  const bool v1 = behaviour.coordinator == Coordinator::kPrefetch;
  return through(through(offload_.partition_all_parameters(), "_partition_all_parameters"),
                 v1 ? "save_checkpoint_prologue" : "checkpoint_event_prologue");
}

Raised Engine::checkpoint_epilogue() {
  if (!options_.with_optimizer && runtime_.behaviour.offload_is_optimizer) return nullptr;
  return gather_persistent();
}

Raised Engine::save_16bit_model() {
  const Behaviour& behaviour = runtime_.behaviour;
  const bool v1 = behaviour.coordinator == Coordinator::kPrefetch;
  if (!behaviour.has_save_16bit) return missing_method(kEngineClass, "save_fp16_model");
  if (!runtime_.settings.gather_16bit_weights_on_model_save) return nullptr;
  return through(consolidated_16bit_state_dict(), v1 ? "save_fp16_model" : "save_16bit_model");
}

Raised Engine::consolidated_16bit_state_dict() {
  const Behaviour& behaviour = runtime_.behaviour;
  const bool v1 = behaviour.coordinator == Coordinator::kPrefetch;
  if (!behaviour.has_save_16bit) return missing_method(kEngineClass, "_zero3_consolidated_fp16_state_dict");
  const std::string function =
      v1 ? "_zero3_consolidated_fp16_state_dict" : "_zero3_consolidated_16bit_state_dict";
  if (behaviour.save_16bit_prologue) {
    if (Raised raised = checkpoint_prologue()) return through(std::move(raised), function);
  }
  if (Raised raised = consolidate(offload_.root())) return through(std::move(raised), function);
  return behaviour.save_16bit_prologue ? checkpoint_epilogue() : nullptr;
}

// get_layer_state_dict: a module's own params, then its children, depth first.
Raised Engine::consolidate(Module& module) {
  if (!module.own_params.empty()) {
    if (Raised raised = gather_enter(module.own_params, runtime_.behaviour.save_16bit_modifier ? 0 : -1))
      return raised;
    if (Raised raised = gather_exit()) return through(std::move(raised), "get_layer_state_dict");
  }
  for (Module* child : module.children) {
    if (Raised raised = consolidate(*child)) return through(std::move(raised), "get_layer_state_dict");
  }
  return nullptr;
}

Raised Engine::save_checkpoint() {
  if (Raised raised = checkpoint_prologue()) return through(std::move(raised), "save_checkpoint");
  return checkpoint_epilogue();
}

Raised Engine::load_checkpoint() {
  if (runtime_.behaviour.load_prologue) {
    if (Raised raised = checkpoint_prologue()) return through(std::move(raised), "load_checkpoint");
    return checkpoint_epilogue();
  }
  if (Raised raised = partitioner_.partition(offload_.persistent_parameters(), Reason::kPartitionAll)) {
    return through(std::move(raised), "load_checkpoint");
  }
  return gather_persistent();
}

Raised Engine::empty_partition_cache() {
  if (!runtime_.behaviour.has_empty_partition_cache)
    return missing_method(kEngineClass, "empty_partition_cache");
  return through(offload_.partition_all_parameters(), "empty_partition_cache");
}

Raised Engine::offload_states() {
  if (!runtime_.behaviour.has_offload_states) return missing_method(kEngineClass, "offload_states");
  if (!options_.with_optimizer) {
    return raise(FailureKind::kMissingMethod, "AssertionError",
                 "Moving states across devices is not supported without an optimizer.");
  }
  return through(empty_partition_cache(), "offload_states");
}

}  // namespace zero3
