// One engine's model, run forward and backward with the hooks that DeepSpeed put on its modules. What the hooks do is
// here; where autograd fires them is the pass's own: ForwardPass models it, and a run with real tensors leaves it to
// the library that computes them.
#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "coordinator/parameter_offload.h"
#include "coordinator/plan.h"

namespace zero3 {

class ModelPass {
 public:
  using OnGradient = std::function<Raised(Param& param)>;

  virtual ~ModelPass() = default;
  ModelPass(const ModelPass&) = delete;
  ModelPass& operator=(const ModelPass&) = delete;

  // Calls modules one after the other: the root alone through engine.forward (`in_engine`), or children directly.
  // Through the engine, an access to a partitioned weight gathers it, and with grad enabled the output becomes the loss
  // of the coming backward; a forward without grad leaves the loss that was there.
  virtual Raised run(std::span<const Call> calls, bool grad_enabled, bool input_requires_grad,
                     bool in_engine) = 0;
  // loss.backward(). The params that received a gradient, in order, are in gradients() afterwards.
  // `on_gradient` hears of each as it is accumulated, and of those to which backward came without one.
  virtual Raised backward() = 0;
  virtual bool has_loss() const = 0;

  void set_on_gradient(OnGradient on_gradient) { on_gradient_ = std::move(on_gradient); }
  const std::vector<Param*>& gradients() const { return gradients_; }
  // Those among them whose gradient was made while the param was partitioned.
  const std::vector<Param*>& empty_gradients() const { return empty_gradients_; }

 protected:
  // `partitioner` gathers weights read outside their module.
  ModelPass(Process& process, Runtime& runtime, Partitioner& partitioner)
      : process_(process), runtime_(runtime), partitioner_(partitioner) {}

  void forget_gradients();
  // While the engine runs forward, reading a partitioned weight registers it as external to the module that runs, and
  // gathers it.
  Raised read_weight(Param* param, bool in_engine);
  // A call wraps as many inputs that require grad; it wraps an output.
  void wraps_inputs(Module& module, int requiring_grad) const;
  static void wraps_output(Module& module);
  // Whose hook a wrapper calls.
  static ParameterOffload* pre_backward_owner(const Module& module, ParameterOffload* owner);
  static ParameterOffload* post_backward_owner(const Module& module, ParameterOffload* owner);
  // The backward of such wrappers.
  Raised run_pre_backward(Module& module, ParameterOffload& owner) const;
  static Raised run_post_backward(Module& module, ParameterOffload& owner);
  // The gradient of a param has been accumulated, or backward came to it without one.
  Raised accumulated(Param& param, bool gradient);
  // Before torch 2.1 the hook that unpacks a saved tensor is called from C++, which shows what it raised as text.
  static Raised from_saved_tensor_hook(Raised raised);
  bool has_empty_gradient(const Param& param) const;
  // Leaf modules: the optimizer reduces their gradients all at once, when the module's backward is over, instead of
  // each as it is accumulated (v0.13.2, #5008).
  bool has_full_backward_hook(const Module& module) const;
  static Raised check_leaf(const Module& module, bool output_requires_grad);
  Raised leaf_input_has_gradient(Module& leaf);
  Raised reduce_leaf_module_grads(const Module& leaf);

  Process& process() { return process_; }
  const Runtime& runtime() const { return runtime_; }

 private:
  // Whether the optimizer has it, and so a hook on its gradient.
  bool is_optimized(const Param& param) const;
  bool reduced_with_leaf(const Param& param) const;

  Process& process_;
  Runtime& runtime_;
  Partitioner& partitioner_;
  std::vector<Param*> gradients_;
  OnGradient on_gradient_;               // null: nobody reduces gradients
  std::vector<Param*> leaf_gradients_;   // accumulated or made, of params in leaf modules
  std::vector<Param*> empty_gradients_;  // made while the param was partitioned
};

}  // namespace zero3
