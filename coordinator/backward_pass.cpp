// The backward half of ForwardPass: what each autograd node does when its turn comes.
#include "coordinator/forward_pass.h"

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

}  // namespace

Raised ForwardPass::backward() {
  gradients_.clear();
  if (loss_.node < 0) return raise(FailureKind::kNoGradient, "RuntimeError", kNoGradFn);
  ++backward_depth_;
  Raised raised = tape_.backward(loss_.node, [this](int index) { return run_node(index); });
  --backward_depth_;
  return raised;
}

Raised ForwardPass::run_node(int index) {
  const Node node = tape_.node(index);
  switch (node.kind) {
    case NodeKind::kOp: return run_op(index);
    case NodeKind::kPreBackward: return through(run_pre_backward(node), "backward");
    case NodeKind::kPostBackward: return through(run_post_backward(node), "backward");
    case NodeKind::kCheckpoint: return recompute_reentrant(index);
  }
  return nullptr;
}

Raised ForwardPass::run_op(int index) {
  if (tape_.node(index).freed) return raise(FailureKind::kNoGradient, "RuntimeError", kSecondBackward);
  const int frame = tape_.node(index).frame;
  if (frame >= 0 && !frames_[static_cast<size_t>(frame)].recomputed) {
    if (Raised raised = recompute_frame(frames_[static_cast<size_t>(frame)])) return raised;
  }
  Node& node = tape_.node(index);
  node.freed = node.saves;
  gradients_.insert(gradients_.end(), node.weights.begin(), node.weights.end());
  return nullptr;
}

Raised ForwardPass::run_pre_backward(const Node& node) {
  constexpr std::string_view kFunction = "_run_before_backward_function";
  Module& module = *node.module;
  if (runtime_.behaviour.pre_backward_dedup == PreBackwardDedup::kFlag) {
    if (module.pre_backward_done) return nullptr;
    if (Raised raised = node.owner->pre_sub_module_backward(module))
      return through(std::move(raised), kFunction);
    module.pre_backward_done = true;
    return nullptr;
  }
  if (module.applied_pre_backward_ref_cnt <= 0) return nullptr;
  if (Raised raised = node.owner->pre_sub_module_backward(module))
    return through(std::move(raised), kFunction);
  --module.applied_pre_backward_ref_cnt;
  return nullptr;
}

Raised ForwardPass::run_post_backward(const Node& node) {
  if (--node.module->ds_grads_remaining != 0) return nullptr;
  return through(node.owner->post_sub_module_backward(*node.module), "_run_after_backward_function");
}

// torch.utils.checkpoint, use_reentrant=True: the region runs again with grad, on a detached input, and a backward of
// its own runs inside this one.
Raised ForwardPass::recompute_reentrant(int index) {
  const auto [call, input] = reentrant_[static_cast<size_t>(tape_.node(index).frame)];
  const bool outer_grad = grad_enabled_;
  grad_enabled_ = true;
  std::vector<Value> outputs;
  Raised raised = call_module(call, Value{-1, input.requires_grad}, outputs);
  grad_enabled_ = outer_grad;
  if (raised) return raised;
  const Value inner = outputs.size() == 1 ? outputs.front() : op(nullptr, outputs, {});
  if (inner.node < 0) return nullptr;
  return tape_.backward(inner.node, [this](int node) { return run_node(node); });
}

// use_reentrant=False: the first saved tensor that backward unpacks runs the region again, until the last tensor it had
// saved is there; then the modules still running are left without their forward hooks.
Raised ForwardPass::recompute_frame(Frame& frame) {
  frame.recomputed = true;
  const Call call = frame.call;
  const Value input = frame.input;
  const bool outer_grad = grad_enabled_;
  const int outer_saves = saves_left_;
  grad_enabled_ = true;
  saves_left_ = call.checkpointing == Checkpointing::kWholeRecompute ? frame.saved + 1 : frame.saved;
  std::vector<Value> outputs;
  Raised raised = call_module(call, input, outputs);
  grad_enabled_ = outer_grad;
  saves_left_ = outer_saves;
  stopped_ = false;
  return raised;
}

}  // namespace zero3
