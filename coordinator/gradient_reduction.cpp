// The part of Engine about gradients: into the optimizer's bucket as they arrive, reduced when backward has ended, and
// partitioned.
#include <algorithm>
#include <vector>

#include "coordinator/engine.h"

namespace zero3 {
namespace {

constexpr const char* kStage3Class = "DeepSpeedZeroOptimizer_Stage3";

}  // namespace

// The optimizer's hooks on gradients.
void Engine::watch_gradients() {
  forward_pass_.set_on_gradient([this](Param&) { return on_gradient(); });
  offload_.register_leaf_hooks();
}

// reduce_ready_partitions_and_remove_grads: the gradient goes into the bucket, whose buffer may be offloaded.
Raised Engine::on_gradient() {
  const bool no_buffer = !options_.with_optimizer && runtime_.behaviour.gradient_buffer_needs_optimizer;
  if (!states_offloaded_ && !no_buffer) return nullptr;
  Raised raised =
      states_offloaded_
          ? no_attribute("NoneType", "narrow")
          : no_attribute(kStage3Class, std::string("_") + kStage3Class + "__ipg_bucket_flat_buffer");
  raised = through(std::move(raised), "__add_grad_to_ipg_bucket");
  raised = through(std::move(raised), "reduce_independent_p_g_buckets_and_remove_grads");
  return through(std::move(raised), "reduce_ready_partitions_and_remove_grads");
}

Raised Engine::reduce_gradients() {
  averaged_gradients_ = Averaged::kThere;
  const bool v1 = runtime_.behaviour.coordinator == Coordinator::kPrefetch;
  if (forward_pass_.gradients().empty()) {
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
  if (Raised raised = runtime_.communicator.reduce_scatter(forward_pass_.gradients())) return raised;
  gradient_buffer_.arrive(forward_pass_.gradients());
  for (Param* param : forward_pass_.gradients()) param->has_grad = false;
  return v1 ? partition_gradients() : nullptr;
}

// Every gradient has its param's size, and no param is there twice: a param used inside and outside a region that a
// reentrant checkpoint runs backward on its own would be. The bucket is taken to be large enough for all.
Raised Engine::check_gradient_bucket() const {
  std::vector<Param*> reduced = forward_pass_.gradients();
  const std::vector<Param*>& empty = forward_pass_.empty_gradients();
  for (Param* param : reduced) {
    if (param->ds_numel == 0 || std::ranges::find(empty, param) == empty.end()) continue;
    return raise(FailureKind::kEmptyWeight, "RuntimeError",
                 "0 != " + std::to_string(param->ds_numel) +
                     " Cannot reduce scatter gradients whose size is not same as the params",
                 {param});
  }
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
  for (Param* param : forward_pass_.gradients()) {
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
