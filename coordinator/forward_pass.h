// Runs a plan as torch runs a model, without values: hooks around each module, nodes on a tape for what it computes,
// and backward.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "coordinator/model_pass.h"
#include "coordinator/tape.h"

namespace zero3 {

class ForwardPass final : public ModelPass {
 public:
  ForwardPass(Process& process, Runtime& runtime, Partitioner& partitioner)
      : ModelPass(process, runtime, partitioner) {}

  Raised run(std::span<const Call> calls, bool grad_enabled, bool input_requires_grad,
             bool in_engine) override;
  Raised backward() override;
  bool has_loss() const override { return loss_.requires_grad; }

 private:
  static constexpr int kCountsNothing = -1;
  struct Frame {  // one checkpointed region without reentrance
    Call call;
    Value input;
    int parent = -1;  // region around it
    int saved = 0;
    bool recomputed = false;
  };

  Raised call_in_turn(std::span<const Call> calls, Value& value);
  Raised call_checkpointed(const Call& call, Value input, std::vector<Value>& outputs);
  Raised call_module(const Call& call, Value input, std::vector<Value>& outputs);
  Raised call_recorded(const Call& call, Value chain, std::vector<Value>& outputs);
  Value wrap_recorded(const Call& call, NodeKind kind, ParameterOffload* owner, Value chain);
  Raised run_body(const Call& call, Value input, std::vector<Value>& outputs);
  Raised use_weights(const Module& module, std::span<Param* const> weights);
  static Raised single_element_weight(const Module& module, Param* param);
  Raised pre_hooks(const Call& call, Value& input);
  Raised forward_hooks(const Call& call, std::vector<Value>& outputs);
  // `module`: whose own computation it is; null for what is made of its result
  Value op(Module* module, std::span<const Value> inputs, std::span<Param* const> weights);
  bool saves_tensors(const Module& linear, std::span<const Value> inputs,
                     std::span<Param* const> weights) const;
  int kept_version(const Module& linear, std::span<const Value> inputs) const;
  Value wrap_post_backward(Module& module, ParameterOffload* owner, Value input);
  Value wrap_pre_backward(Module& module, ParameterOffload* owner, Value output);
  Raised run_node(int index, bool& gradient);
  Raised run_op(int index, bool& gradient);
  Raised recompute_reentrant(int index, bool& gradient);
  Raised recompute_frame(int index);
  Value wrap_leaf(NodeKind kind, Module& module, Value value);
  void wrap_leaf_outputs(Module& module, std::vector<Value>& outputs);
  Raised accumulate(Param& param, bool gradient);
  Raised run_tape(int root);
  Raised call_in_frame(const Call& call, Value input, std::vector<Value>& outputs);
  Raised call_checkpointed_part(const Call& call, Value input, std::vector<Value>& outputs);
  int add_reentrant(const Call& call, Value input);
  Raised call_region(const Call& call, Value& chain);
  void stop_here(Value& chain);
  Value joined(const std::vector<Value>& values);
  void count_save();

  Tape tape_;
  std::vector<Frame> frames_;
  std::vector<std::pair<Call, Value>> reentrant_;  // by Node::frame of a kCheckpoint node
  Value loss_;
  bool grad_enabled_ = true;
  bool in_engine_ = false;
  bool inside_no_grad_region_ = false;  // first pass of a recorded reentrant region
  int frame_ = -1;                      // region being recorded
  int saves_left_ = kCountsNothing;     // of a recomputation: stops when it reaches 0
  bool stops_at_mark_ = false;          // a recomputation whose region says where it stops
  bool stopped_ = false;
  int backward_depth_ = 0;
  bool input_reached_ = false;  // the backward of a region that runs again came to its input
};

}  // namespace zero3
