#include "coordinator/engine.h"

#include <algorithm>
#include <iterator>

#include "coordinator/forward_pass.h"
#include "coordinator/summary.h"

namespace zero3 {
namespace {

constexpr const char* kOffloadClass = "DeepSpeedZeRoOffload";
constexpr const char* kEngineClass = "DeepSpeedEngine";
constexpr const char* kLossMustBeScalar =
    "loss must be a scalar tensor. If you need to pass output gradients, backward() of output tensors";

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

std::string torch_size(const std::vector<int64_t>& shape) { return "torch.Size(" + python_list(shape) + ")"; }

}  // namespace

Engine::Engine(Process& process, Module& root, const Behaviour& behaviour, const Settings& settings,
               Communicator& communicator, Observer* observer, Options options, ParamTensors* tensors)
    : runtime_{behaviour, settings, communicator, observer, tensors},
      options_(options),
      partitioner_(runtime_),
      offload_(process, root, runtime_, partitioner_) {
  if (tensors == nullptr) {
    model_pass_ = std::make_unique<ForwardPass>(process, runtime_, partitioner_);
  } else {
    model_pass_ = tensors->make_model_pass(process, runtime_, partitioner_);
    if (options_.with_optimizer) optimizer_tensors_ = tensors->make_optimizer(offload_.parameters());
  }
  runtime_.settings.allgather_sequential =
      behaviour.knows_allgather_sequential && settings.allgather_sequential;
  if (runtime_.settings.allgather_sequential && options_.with_optimizer)
    runtime_.settings.prefetch_bucket_numel = 1;
  if (options_.with_optimizer || !behaviour.offload_is_optimizer) watch_gradients(process);
}

Raised Engine::forward(std::span<const Call> root_children, bool grad_enabled,
                       const std::optional<Flow>& root_flow) {
  Call call{.module = &offload_.root(), .flow = root_flow};
  call.children.assign(root_children.begin(), root_children.end());
  if (Raised raised =
          model_pass_->run(std::span(&call, 1), grad_enabled, options_.input_requires_grad, true)) {
    return through(std::move(raised), "forward");
  }
  if (grad_enabled || !runtime_.behaviour.no_grad_engine_reset) return nullptr;
  return through(offload_.coordinator(true).reset_step(), "forward");
}

Raised Engine::forward_direct(std::span<const Call> calls, bool grad_enabled) {
  return model_pass_->run(calls, grad_enabled, options_.input_requires_grad, false);
}

Raised Engine::backward() {
  const Behaviour& behaviour = runtime_.behaviour;
  if (!options_.with_optimizer && behaviour.offload_is_optimizer) return backward_without_optimizer();
  if (behaviour.torch_style_backward && !model_pass_->has_loss())
    return through(raise(FailureKind::kNoGradient, "AssertionError", kLossMustBeScalar), "backward");
  has_begun_backward_ = true;
  if (Raised raised = model_pass_->backward()) {
    if (behaviour.torch_style_backward) return through(std::move(raised), "backward");
    return in_optimizer_backward(through(std::move(raised), "backward"));
  }
  if (behaviour.partition_all == PartitionAll::kEndOfBackward) {
    if (Raised raised = offload_.partition_all_parameters()) return in_optimizer_backward(std::move(raised));
  }
  if (behaviour.backward_end_reset) {
    if (Raised raised = offload_.reset_after_backward()) return in_optimizer_backward(std::move(raised));
  }
  Raised raised = through(reduce_gradients(), "allreduce_gradients");
  if (!raised && behaviour.active_backward_stack)
    raised = through(offload_.coordinator(true).release_backward_leftovers(), "backward_epilogue");
  if (behaviour.backward_in_parts) raised = through(std::move(raised), "_backward_epilogue");
  return through(std::move(raised), "backward");
}

// Through the optimizer's backward to the engine's.
Raised Engine::in_optimizer_backward(Raised raised) const {
  raised = through(std::move(raised), "backward");
  if (runtime_.behaviour.backward_in_parts) raised = through(std::move(raised), "_do_optimizer_backward");
  return through(std::move(raised), "backward");
}

Raised Engine::backward_without_optimizer() {
  if (!runtime_.behaviour.torch_style_backward) {
    Raised raised = no_attribute(kOffloadClass, "backward");
    if (runtime_.behaviour.backward_in_parts) raised = through(std::move(raised), "_do_optimizer_backward");
    return through(std::move(raised), "backward");
  }
  if (!model_pass_->has_loss())
    return through(raise(FailureKind::kNoGradient, "AssertionError", kLossMustBeScalar), "backward");
  if (runtime_.behaviour.sets_optimizer_boundary) {
    Raised raised =
        through(no_attribute(kOffloadClass, "set_gradient_accumulation_boundary"), "_backward_prologue");
    return through(through(through(std::move(raised), "backward_prologue"), "backward_hook"), "backward");
  }
  if (Raised raised = model_pass_->backward()) return through(std::move(raised), "backward");
  Raised raised = no_attribute(kOffloadClass, "overlapping_partition_gradients_reduce_epilogue");
  return through(through(through(std::move(raised), "allreduce_gradients"), "_backward_epilogue"),
                 "backward");
}

bool Engine::is_gradient_accumulation_boundary() const {
  return (micro_steps_ + 1) % runtime_.settings.gradient_accumulation_steps == 0;
}

Raised Engine::step(bool overflow) {
  if (is_gradient_accumulation_boundary()) {
    if (!options_.with_optimizer && runtime_.behaviour.offload_is_optimizer) return step_without_optimizer();
    if (Raised raised = optimizer_step(overflow))
      return through(through(through(std::move(raised), "step"), "_take_model_step"), "step");
  }
  ++micro_steps_;
  return nullptr;
}

Raised Engine::step_without_optimizer() {
  if (runtime_.behaviour.boundary_asks_checkpoint_engine)
    return through(missing_checkpoint_engine("is_decoupled"), "step");
  return through(through(no_attribute(kOffloadClass, "step"), "_take_model_step"), "step");
}

Raised Engine::optimizer_step(bool overflow) {
  const Behaviour& behaviour = runtime_.behaviour;
  ParamCoordinator& coordinator = offload_.coordinator(true);
  coordinator.finish_tracing();
  if (behaviour.step_reset) {
    if (Raised raised = coordinator.reset_step()) return raised;
  }
  if (behaviour.partition_all == PartitionAll::kStartOfStep) {
    if (Raised raised = offload_.partition_all_parameters())
      return through(std::move(raised), "_partition_all_parameters");
  }
  gradient_buffer_.settle(overflow);
  if (overflow && optimizer_tensors_ != nullptr) optimizer_tensors_->overflow();
  const bool looks_for_overflow = !behaviour.overflow_checked_in_fp16_only || runtime_.settings.fp16;
  if (looks_for_overflow && behaviour.overflow_read_from_buffer) {
    if (Raised raised = meet_for_overflow()) return raised;
    if (gradient_buffer_.overflowed()) return skip_step();
  }
  if (Raised raised = check_averaged_gradients()) return raised;
  if (looks_for_overflow && !behaviour.overflow_read_from_buffer) {
    if (Raised raised = meet_for_overflow()) return raised;
    if (gradient_buffer_.arrived_overflowed()) return skip_step();
  }
  if (optimizer_tensors_ != nullptr) optimizer_tensors_->begin_update();
  if (Raised raised = runtime_.communicator.meet(Meeting::kGradientNorm))
    return through(through(std::move(raised), "get_grad_norm_direct"), "_get_norm_groups");
  if (behaviour.invalid_norm_is_overflow && gradient_buffer_.overflowed()) return skip_step();
  averaged_gradients_ = Averaged::kNone;
  if (!options_.with_optimizer) {
    return through(through(list_index_out_of_range(), "_prepare_fp32_grad_for_sub_group"),
                   "_prepare_sub_group");
  }
  // v1 takes zeros for what did not arrive in the cycle, whatever the buffer holds of it.
  if (behaviour.coordinator != Coordinator::kPrefetch) gradient_buffer_.update_weights();
  ++optimizer_steps_;
  if (optimizer_tensors_ != nullptr)
    optimizer_tensors_->update(
        runtime_.settings.gradient_clipping.value_or(behaviour.gradients_clipped_by_default ? 1 : 0));
  return through(gather_persistent(), "_post_step");
}

// _overflow_clean_up: no update, and the persistent params stay partitioned.
Raised Engine::skip_step() {
  averaged_gradients_ = Averaged::kAbsent;
  return nullptr;
}

Raised Engine::meet_for_overflow() {
  return through(
      runtime_.communicator.meet(Meeting::kOverflowCheck),
      {"has_overflow", "_check_overflow", "check_overflow", "_overflow_check_and_loss_scale_update"});
}

Raised Engine::check_averaged_gradients() {
  if (averaged_gradients_ == Averaged::kThere) return nullptr;
  const bool absent = averaged_gradients_ == Averaged::kAbsent;
  Raised raised = absent ? raise(FailureKind::kNoGradient, "KeyError", "0")
                         : raise(FailureKind::kNoGradient, "TypeError", "'NoneType' object is not iterable");
  if (runtime_.behaviour.coordinator == Coordinator::kPrefetch) {
    return through(std::move(raised),
                   {"has_overflow_partitioned_grads_serial", "has_overflow", "_check_overflow",
                    "check_overflow", "_overflow_check_and_loss_scale_update"});
  }
  if (!absent) raised = through(std::move(raised), "get_grad_norm_direct");
  return through(std::move(raised), "_get_norm_groups");
}

Raised Engine::gather_persistent() {
  return partitioner_.all_gather(offload_.persistent_parameters(), Reason::kPersistent);
}

void Engine::train(bool mode) {
  for (Module* module : offload_.modules()) module->training = mode;
}

Raised Engine::no_attribute(const std::string& object, const std::string& attribute) const {
  return raise(FailureKind::kMissingMethod, "AttributeError",
               "'" + object + "' object has no attribute '" + attribute + "'");
}

// A method that this release's engine does not have.
Raised Engine::missing_method(const std::string& method) const {
  Raised raised = no_attribute(kEngineClass, method);
  return runtime_.behaviour.engine_has_getattr ? through(std::move(raised), "__getattr__")
                                               : std::move(raised);
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

// An engine without optimizer configures no checkpoint engine; before v0.10.2 it fails in the prologue already.
Raised Engine::missing_checkpoint_engine(const std::string& method) const {
  if (options_.with_optimizer || !runtime_.behaviour.offload_is_optimizer) return nullptr;
  return no_attribute("NoneType", method);
}

Raised Engine::save_16bit_model() {
  const Behaviour& behaviour = runtime_.behaviour;
  const bool v1 = behaviour.coordinator == Coordinator::kPrefetch;
  if (!behaviour.has_save_16bit) return missing_method("save_fp16_model");
  if (!runtime_.settings.gather_16bit_weights_on_model_save) return nullptr;
  const std::string_view function = v1 ? "save_fp16_model" : "save_16bit_model";
  if (Raised raised = consolidated_16bit_state_dict()) return through(std::move(raised), function);
  if (Raised raised = missing_checkpoint_engine("create")) return through(std::move(raised), function);
  if (runtime_.tensors != nullptr) runtime_.tensors->write_state_dict();
  return nullptr;
}

Raised Engine::consolidated_16bit_state_dict() {
  const Behaviour& behaviour = runtime_.behaviour;
  const bool v1 = behaviour.coordinator == Coordinator::kPrefetch;
  if (!behaviour.has_save_16bit) return missing_method("_zero3_consolidated_fp16_state_dict");
  const std::string function =
      v1 ? "_zero3_consolidated_fp16_state_dict" : "_zero3_consolidated_16bit_state_dict";
  if (behaviour.save_16bit_prologue) {
    if (Raised raised = checkpoint_prologue()) return through(std::move(raised), function);
  }
  if (runtime_.tensors != nullptr) runtime_.tensors->begin_state_dict();
  if (Raised raised = consolidate(offload_.root())) return through(std::move(raised), function);
  return behaviour.save_16bit_prologue ? checkpoint_epilogue() : nullptr;
}

// get_layer_state_dict: a module's own params, then its children, depth first.
Raised Engine::consolidate(Module& module) {
  if (!module.own_params.empty()) {
    if (Raised raised = gather_enter(module.own_params, runtime_.behaviour.save_16bit_modifier ? 0 : -1))
      return through(std::move(raised), "get_layer_state_dict");
    if (runtime_.tensors != nullptr) add_to_state_dict(module);
    if (Raised raised = gather_exit()) return through(std::move(raised), "get_layer_state_dict");
  }
  for (Module* child : module.children) {
    if (Raised raised = consolidate(*child)) return through(std::move(raised), "get_layer_state_dict");
  }
  return nullptr;
}

void Engine::add_to_state_dict(const Module& module) const {
  const std::string prefix = &module == offload_.modules().front() ? "" : module.name + ".";
  for (size_t i = 0; i < module.own_params.size(); ++i)
    runtime_.tensors->add_to_state_dict(prefix + module.own_param_names[i], *module.own_params[i]);
}

Raised Engine::save_checkpoint() {
  if (Raised raised = checkpoint_prologue()) return through(std::move(raised), "save_checkpoint");
  if (!options_.with_optimizer && !runtime_.behaviour.offload_is_optimizer) {
    Raised raised = through(list_index_out_of_range(), "_set_fp32_optimizer_param_groups");
    raised = through(through(std::move(raised), "_rigid_state_dict"), "state_dict");
    return through(through(std::move(raised), "_save_zero_checkpoint"), "save_checkpoint");
  }
  if (Raised raised = make_folder()) return through(std::move(raised), "save_checkpoint");
  if (Raised raised = meet_to_save()) return through(std::move(raised), "save_checkpoint");
  saved_whole_.clear();
  std::ranges::copy_if(offload_.parameters(), std::back_inserter(saved_whole_), &Param::data_is_full);
  if (optimizer_tensors_ != nullptr) optimizer_tensors_->save_checkpoint();
  if (Raised raised = checkpoint_epilogue()) return through(std::move(raised), "save_checkpoint");
  if (!runtime_.behaviour.checkpoint_barriers) return nullptr;
  return through(runtime_.communicator.meet(Meeting::kCheckpointDone), "save_checkpoint");
}

Raised Engine::make_folder() {
  Raised raised = missing_checkpoint_engine("makedirs");
  if (raised == nullptr || !runtime_.behaviour.rank_zero_makes_folder) return raised;
  return runtime_.communicator.parting_rank() == 0 ? std::move(raised) : nullptr;
}

// With an optimizer: the tag is validated, and each rank in turn makes its folder.
Raised Engine::meet_to_save() {
  Communicator& ranks = runtime_.communicator;
  if (runtime_.behaviour.checkpoint_barriers) {
    if (Raised raised = ranks.meet(Meeting::kCheckpointDone)) return raised;
  }
  for (int i = 0; i < 2; ++i) {
    if (Raised raised = ranks.meet(Meeting::kCheckpointTag))
      return through(std::move(raised), "_checkpoint_tag_validation");
  }
  if (runtime_.behaviour.files_barrier == FilesBarrier::kNone) return nullptr;
  for (int turn = 0; turn < runtime_.world_size(); ++turn) {
    if (Raised raised = ranks.meet(Meeting::kCheckpointFiles))
      return through(std::move(raised), "_create_zero_checkpoint_files");
  }
  return nullptr;
}

Raised Engine::load_checkpoint() {
  if (runtime_.behaviour.load_prologue) {
    if (Raised raised = checkpoint_prologue()) return through(std::move(raised), "load_checkpoint");
    copy_over(offload_.root());
    if (states_offloaded_) return load_offloaded();
    if (optimizer_tensors_ != nullptr) optimizer_tensors_->load_checkpoint();
    return checkpoint_epilogue();
  }
  if (Raised raised = load_module_state_dict())
    return through(through(std::move(raised), "_load_checkpoint"), "load_checkpoint");
  if (optimizer_tensors_ != nullptr) optimizer_tensors_->load_checkpoint();
  if (Raised raised = partitioner_.partition(offload_.persistent_parameters(), Reason::kPartitionAll)) {
    return through(std::move(raised), "load_checkpoint");
  }
  return gather_persistent();
}

// The list of partitions that the loaded values are copied to is empty while the states are offloaded.
Raised Engine::load_offloaded() const {
  return through(list_index_out_of_range(),
                 {"_rigid_load_state_dict", "load_state_dict", "_load_zero_checkpoint", "load_checkpoint"});
}

// Before v0.6.0 nothing partitions the params first, and a save leaves those in flight whole: what is gathered now need
// not have the saved shape, nor what was then.
Raised Engine::load_module_state_dict() {
  std::string mismatches;
  compare_shapes(offload_.root(), "", mismatches);
  copy_over(offload_.root());
  if (mismatches.empty()) return nullptr;
  return through(raise(FailureKind::kLoadMismatch, "RuntimeError",
                       "Error(s) in loading state_dict for " + offload_.root().type + ":" + mismatches),
                 "load_module_state_dict");
}

// A param that has two names in the state dict is copied over twice.
void Engine::copy_over(Module& module) {
  for (Param* param : module.own_params) ++param->data_version;
  for (Module* child : module.children) copy_over(*child);
}

void Engine::compare_shapes(const Module& module, const std::string& prefix, std::string& mismatches) const {
  const std::vector<int64_t> partitioned = {runtime_.behaviour.partitioned_data_numel};
  for (size_t i = 0; i < module.own_params.size(); ++i) {
    const Param* param = module.own_params[i];
    const bool saved_whole = std::ranges::find(saved_whole_, param) != saved_whole_.end();
    const std::vector<int64_t>& saved = saved_whole ? param->ds_shape : partitioned;
    const std::vector<int64_t>& current = param->data_is_full ? param->ds_shape : partitioned;
    if (saved == current) continue;
    mismatches += "\n\tsize mismatch for " + prefix + module.own_param_names[i] +
                  ": copying a param with shape " + torch_size(saved) +
                  " from checkpoint, the shape in current model is " + torch_size(current) + ".";
  }
  for (const Module* child : module.children)
    compare_shapes(*child, prefix + last_part(child->name) + ".", mismatches);
}

Raised Engine::empty_partition_cache() {
  if (!runtime_.behaviour.has_empty_partition_cache) return missing_method("empty_partition_cache");
  return through(optimizer_empty_partition_cache(), "empty_partition_cache");
}

// Through the optimizer, where there is one, to the offload object.
Raised Engine::optimizer_empty_partition_cache() {
  Raised raised = through(offload_.partition_all_parameters(), "empty_partition_cache");
  return options_.with_optimizer ? through(std::move(raised), "empty_partition_cache") : std::move(raised);
}

Raised Engine::offload_states() {
  if (!runtime_.behaviour.has_offload_states) return missing_method("offload_states");
  if (!options_.with_optimizer) {
    return raise(FailureKind::kMissingMethod, "AssertionError",
                 "Moving states across devices is not supported without an optimizer.");
  }
  if (Raised raised = optimizer_empty_partition_cache())
    return through(through(std::move(raised), "offload_states"), "offload_states");
  if (Raised raised = map_partitions())
    return through(through(std::move(raised), "offload_states"), "offload_states");
  states_offloaded_ = true;
  averaged_gradients_ = Averaged::kAbsent;
  return nullptr;
}

// The buffer holds the partitions of trainable params; the mapping onto it counts those of all.
Raised Engine::map_partitions() {
  int64_t size = 0;
  for (const Param* param : offload_.parameters())
    size += param->requires_grad ? param->partition_numel(runtime_.world_size()) : 0;
  int64_t offset = 0;
  for (const Param* param : offload_.parameters()) {
    const int64_t length = param->partition_numel(runtime_.world_size());
    if (offset + length > size) {
      return raise(FailureKind::kStatesOffloaded, "RuntimeError",
                   "start (" + std::to_string(offset) + ") + length (" + std::to_string(length) +
                       ") exceeds dimension size (" + std::to_string(size) + ").",
                   {param});
    }
    offset += length;
  }
  return nullptr;
}

Raised Engine::reload_states() {
  if (!runtime_.behaviour.has_offload_states) return missing_method("reload_states");
  states_offloaded_ = false;
  return nullptr;
}

}  // namespace zero3
