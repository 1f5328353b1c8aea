// The part of Engine about gradients: into the optimizer's bucket as they arrive, reduced when backward has ended, and
// partitioned.
#include <algorithm>
#include <vector>

#include "coordinator/engine.h"

namespace zero3 {

// The optimizer's hooks on gradients. A param has those of every engine that trains it, and a backward calls all.
void Engine::watch_gradients(Process& process) {
  process.gradient_watchers.push_back(this);
  model_pass_->set_on_gradient([this, &process](Param& param) -> Raised {
    for (Engine* engine : process.gradient_watchers) {
      if (Raised raised = engine->on_gradient(param, *this)) return raised;
    }
    return nullptr;
  });
  offload_.register_leaf_hooks();
}

// reduce_ready_partitions_and_remove_grads: the gradient goes into the bucket, whose buffer may be offloaded.
Raised Engine::on_gradient(Param& param, const Engine& running) {
  const bool foreign = &running != this;
  if (foreign && std::ranges::find(offload_.parameters(), &param) == offload_.parameters().end())
    return nullptr;
  const bool no_buffer = !options_.with_optimizer && runtime_.behaviour.gradient_buffer_needs_optimizer;
  if (!states_offloaded_ && !no_buffer) {
    if (!param.has_grad) return check_missing_gradient();
    return foreign ? keep_foreign_gradient(param) : nullptr;
  }
  const std::string stage3(runtime_.behaviour.stage3_class);
  Raised raised = states_offloaded_ ? no_attribute("NoneType", "narrow")
                                    : no_attribute(stage3, "_" + stage3 + "__ipg_bucket_flat_buffer");
  return through(std::move(raised),
                 {"__add_grad_to_ipg_bucket", "reduce_independent_p_g_buckets_and_remove_grads",
                  "reduce_ready_partitions_and_remove_grads"});
}

// The hook of a param to which backward came without a gradient, as it does where a reentrant region hands on none.
Raised Engine::check_missing_gradient() const {
  if (runtime_.behaviour.coordinator != Coordinator::kPrefetch) {
    return through(no_attribute("NoneType", "numel"),
                   {"__add_grad_to_ipg_bucket", "reduce_independent_p_g_buckets_and_remove_grads",
                    "reduce_ready_partitions_and_remove_grads"});
  }
  if (!runtime_.behaviour.contiguous_gradients) return nullptr;
  return through(no_attribute("NoneType", "view"), {"reduce_independent_p_g_buckets_and_remove_grads",
                                                    "reduce_ready_partitions_and_remove_grads"});
}

// v1 has a buffer for its bucket only while its own engine runs backward.
Raised Engine::keep_foreign_gradient(Param& param) {
  const Behaviour& behaviour = runtime_.behaviour;
  if (behaviour.coordinator != Coordinator::kPrefetch) {
    foreign_gradients_.push_back(&param);
    return nullptr;
  }
  if (!behaviour.contiguous_gradients) return nullptr;
  Raised raised = has_begun_backward_
                      ? raise(FailureKind::kInternal, "TypeError", "'NoneType' object is not subscriptable")
                      : no_attribute(std::string(behaviour.stage3_class), "ipg_index");
  return through(std::move(raised), {"reduce_independent_p_g_buckets_and_remove_grads",
                                     "reduce_ready_partitions_and_remove_grads"});
}

Raised Engine::reduce_gradients() {
  averaged_gradients_ = Averaged::kThere;
  const bool v1 = runtime_.behaviour.coordinator == Coordinator::kPrefetch;
  if (model_pass_->gradients().empty() && foreign_gradients_.empty()) {
    if (!v1 || !runtime_.behaviour.contiguous_gradients) return nullptr;
    Raised raised = through(through(list_index_out_of_range(), "average_tensor"), "reduce_ipg_grads");
    raised = through(std::move(raised), "independent_gradient_partition_epilogue");
    return through(std::move(raised), "overlapping_partition_gradients_reduce_epilogue");
  }
  if (!v1) {
    if (Raised raised = check_gradient_bucket()) {
      raised = through(through(std::move(raised), "__reduce_and_partition_ipg_grads"),
                       "independent_gradient_partition_epilogue");
      return through(std::move(raised), "overlapping_partition_gradients_reduce_epilogue");
    }
  }
  if (Raised raised = runtime_.communicator.reduce_scatter(model_pass_->gradients())) return raised;
  if (optimizer_tensors_ != nullptr) {
    // v1 takes zeros for what does not arrive in the cycle.
    if (v1 && gradient_buffer_.is_first_of_cycle()) optimizer_tensors_->drop_gradients();
    optimizer_tensors_->add_gradients(model_pass_->gradients(), gradient_buffer_.is_first_of_cycle());
  }
  gradient_buffer_.arrive(model_pass_->gradients());
  for (Param* param : model_pass_->gradients()) param->has_grad = false;
  if (!v1) return nullptr;
  Raised raised = partition_gradients();
  if (runtime_.behaviour.contiguous_gradients && is_gradient_accumulation_boundary()) gradient_buffer_.drop();
  return raised;
}

// A gradient that the backward of another engine put into the bucket is gone by now, or is there twice.
Raised Engine::check_foreign_gradients() const {
  for (const Param* param : foreign_gradients_) {
    if (std::ranges::find(model_pass_->gradients(), param) == model_pass_->gradients().end())
      return no_attribute("NoneType", "numel");
  }
  return nullptr;
}

// Every gradient has its param's size, and no param is there twice: a param used inside and outside a region that a
// reentrant checkpoint runs backward on its own would be. The bucket is taken to be large enough for all.
Raised Engine::check_gradient_bucket() const {
  if (Raised raised = check_foreign_gradients()) return raised;
  std::vector<Param*> reduced = model_pass_->gradients();
  const std::vector<Param*>& empty = model_pass_->empty_gradients();
  for (Param* param : reduced) {
    if (param->ds_numel == 0 || std::ranges::find(empty, param) == empty.end()) continue;
    return raise(FailureKind::kEmptyWeight, "RuntimeError",
                 "0 != " + std::to_string(param->ds_numel) +
                     " Cannot reduce scatter gradients whose size is not same as the params",
                 {param});
  }
  reduced.insert(reduced.end(), foreign_gradients_.begin(), foreign_gradients_.end());
  std::ranges::sort(reduced, {}, &Param::ds_id);
  const auto twice = std::ranges::adjacent_find(reduced);
  return twice == reduced.end() ? nullptr
                                : raise(FailureKind::kGradientTwice, "AssertionError", "", {*twice});
}

// v1 leaves in param.grad the part of this rank: a param that is in the bucket twice has no other part left.
Raised Engine::partition_gradients() const {
  const Communicator& communicator = runtime_.communicator;
  if (communicator.world_size() == 1) return nullptr;  // the part is all of it
  std::vector<bool> done;                              // by ds_id
  for (Param* param : model_pass_->gradients()) {
    const auto id = static_cast<size_t>(param->ds_id);
    if (id >= done.size()) done.resize(id + 1);
    if (!done[id]) {
      done[id] = true;
      continue;
    }
    const int64_t part = param->partition_numel(communicator.world_size());
    const int64_t start = part * communicator.parting_rank();
    const int64_t length = std::min(param->ds_numel - start, part);
    if (length <= 0 || start + length <= part) continue;
    Raised raised = raise(FailureKind::kGradientTwice, "RuntimeError",
                          "start (" + std::to_string(start) + ") + length (" + std::to_string(length) +
                              ") exceeds dimension size (" + std::to_string(part) + ").",
                          {param});
    return through(std::move(raised),
                   {"_partition_gradient", "_partition_gradients", "partition_gradients",
                    "partition_previous_reduced_grads", "independent_gradient_partition_epilogue",
                    "overlapping_partition_gradients_reduce_epilogue"});
  }
  return nullptr;
}

}  // namespace zero3
