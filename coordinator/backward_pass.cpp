// The backward half of ForwardPass: what each autograd node does when its turn comes.
#include <algorithm>
#include <utility>

#include "coordinator/forward_pass.h"
#include "coordinator/summary.h"

namespace zero3 {
namespace {

constexpr const char* kNoGradFn = "element 0 of tensors does not require grad and does not have a grad_fn";
constexpr const char* kSecondBackward =
    "Trying to backward through the graph a second time (or directly access saved tensors after they have "
    "already been "
    "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
    "Specify "
    "retain_graph=True if you need to backward through the graph a second time or if you need to access "
    "saved tensors "
    "after calling backward.";
constexpr const char* kNothingRecomputed =
    "none of output has requires_grad=True, this checkpoint() is not necessary";

// What a region keeps it makes again in backward. torch 2's words; it is the weight's transpose that a Linear keeps,
// unless it is wrapped.
Raised check_weight(const Node& node, bool wrapped) {
  if (node.weight_version < 0 || node.frame >= 0) return nullptr;
  const Param* weight = node.module->own_params.front();
  if (weight->data_version == node.weight_version) return nullptr;
  std::vector<int64_t> shape = weight->ds_shape;
  if (!wrapped) std::ranges::reverse(shape);
  return raise(
      FailureKind::kWeightModified, "RuntimeError",
      "one of the variables needed for gradient computation has been modified by an inplace operation: "
      "[torch.FloatTensor " +
          python_list(shape) + "]" + (wrapped ? "" : ", which is output 0 of AsStrided,") +
          " is at version " + std::to_string(weight->data_version) + "; expected version " +
          std::to_string(node.weight_version) +
          " instead. Hint: enable anomaly detection to find the operation that failed to compute its "
          "gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False).",
      {weight});
}

// AccumulateGrad lays a new gradient out as the param is, which holds next to nothing while partitioned; a gradient of
// one dimension has the layout of any other and passes.
std::string shape_mismatch(const Param& param, int partitioned_numel) {
  if (partitioned_numel == 1)
    return "output with shape [1] doesn't match the broadcast shape " + python_list(param.ds_shape);
  return "The size of tensor a (0) must match the size of tensor b (" +
         std::to_string(param.ds_shape.back()) + ") at non-singleton dimension " +
         std::to_string(param.ds_shape.size() - 1);
}

// Not counting the regions within: those say where they stop themselves.
bool says_where_it_stops(std::span<const Call> calls) {
  return std::ranges::any_of(calls, [](const Call& call) {
    return call.stops || (!call.is_region() && says_where_it_stops(call.children));
  });
}

}  // namespace

Raised ForwardPass::backward() {
  forget_gradients();
  if (loss_.node < 0) return raise(FailureKind::kNoGradient, "RuntimeError", kNoGradFn);
  ++backward_depth_;
  Raised raised = run_tape(loss_.node);
  --backward_depth_;
  return raised;
}

Raised ForwardPass::run_tape(int root) {
  return tape_.backward(
      root, [this](int index, bool& gradient) { return run_node(index, gradient); },
      [this](Param& param, bool gradient) { return accumulate(param, gradient); });
}

Raised ForwardPass::accumulate(Param& param, bool gradient) {
  const bool fails = has_empty_gradient(param)
                         ? param.ds_shape.back() != 1
                         : !param.data_is_full && param.ds_numel > 0 && param.ds_shape.size() > 1;
  if (gradient && fails) {
    return raise(FailureKind::kEmptyWeight, "RuntimeError",
                 shape_mismatch(param, runtime().behaviour.partitioned_data_numel), {&param});
  }
  return accumulated(param, gradient);
}

// DeepSpeed's own autograd functions take zeros for a gradient that is not there.
Raised ForwardPass::run_node(int index, bool& gradient) {
  const Node node = tape_.node(index);
  if (node.kind != NodeKind::kOp && node.kind != NodeKind::kLeafInput) gradient = true;
  switch (node.kind) {
    case NodeKind::kOp: return run_op(index, gradient);
    case NodeKind::kPreBackward: return through(run_pre_backward(*node.module, *node.owner), "backward");
    case NodeKind::kPostBackward: return through(run_post_backward(*node.module, *node.owner), "backward");
    case NodeKind::kLeafInput: return leaf_input_has_gradient(*node.module);
    case NodeKind::kLeafBackward: return reduce_leaf_module_grads(*node.module);
    case NodeKind::kCheckpoint: return recompute_reentrant(index, gradient);
    case NodeKind::kRegionInput: input_reached_ = true; return nullptr;
  }
  return nullptr;
}

Raised ForwardPass::run_op(int index, bool& gradient) {
  const Node node = tape_.node(index);
  const bool wrapped =
      runtime().behaviour.linear_is_wrapped && node.module != nullptr && node.module->is_linear;
  if (wrapped) gradient = true;
  if (!node.saves) return nullptr;
  Raised raised = node.freed ? raise(FailureKind::kNoGradient, "RuntimeError", kSecondBackward)
                             : check_weight(node, wrapped);
  if (raised) return wrapped ? through(std::move(raised), "backward") : std::move(raised);
  tape_.node(index).freed = true;
  return node.frame >= 0 ? recompute_frame(node.frame) : nullptr;
}

// torch.utils.checkpoint, use_reentrant=True: the region runs again with grad, on a detached input, and a backward of
// its own runs inside this one. What that leaves at the input is the region's gradient: none, if it does not get there.
// (Of a recorded region nobody knows; it is taken to get there.)
Raised ForwardPass::recompute_reentrant(int index, bool& gradient) {
  if (tape_.node(index).freed) return raise(FailureKind::kNoGradient, "RuntimeError", kSecondBackward);
  tape_.node(index).freed = true;
  const auto [call, input] = reentrant_[static_cast<size_t>(tape_.node(index).frame)];
  const bool outer_grad = grad_enabled_;
  grad_enabled_ = true;
  std::vector<Value> outputs;
  const bool watched = input.requires_grad && !call.is_region();
  const int at_input = watched ? tape_.add({.kind = NodeKind::kRegionInput}) : -1;
  Raised raised = call_checkpointed_part(call, Value{at_input, input.requires_grad}, outputs);
  grad_enabled_ = outer_grad;
  if (raised) return raised;
  const Value inner = joined(outputs);
  if (inner.node < 0) return raise(FailureKind::kNoGradient, "RuntimeError", kNothingRecomputed);
  const bool outer_reached = std::exchange(input_reached_, false);
  raised = run_tape(inner.node);
  const bool reached = std::exchange(input_reached_, outer_reached);
  gradient = reached || !watched;
  return raised;
}

// use_reentrant=False: the first saved tensor that backward unpacks runs the region again, until the last tensor it had
// saved is there; then the modules still running are left without their forward hooks. From torch 2.1 on a region's
// input is itself a tensor saved by the region around it.
Raised ForwardPass::recompute_frame(int index) {
  const Frame frame = frames_[static_cast<size_t>(index)];
  if (frame.recomputed) return nullptr;
  const bool whole = frame.call.checkpointing == Checkpointing::kWholeRecompute;
  if (!whole && frame.parent >= 0) {
    if (Raised raised = recompute_frame(frame.parent)) return raised;
  }
  frames_[static_cast<size_t>(index)].recomputed = true;
  const bool outer_grad = grad_enabled_;
  const int outer_saves = saves_left_;
  const bool outer_mark = stops_at_mark_;
  grad_enabled_ = true;
  stops_at_mark_ = !whole && says_where_it_stops(frame.call.children);
  saves_left_ = whole || stops_at_mark_ ? kCountsNothing : frame.saved;
  std::vector<Value> outputs;
  Raised raised = call_checkpointed_part(frame.call, frame.input, outputs);
  grad_enabled_ = outer_grad;
  saves_left_ = outer_saves;
  stops_at_mark_ = outer_mark;
  stopped_ = false;
  return whole ? from_saved_tensor_hook(std::move(raised)) : std::move(raised);
}

}  // namespace zero3
