// DeepSpeedEngine with ZeRO stage 3 on one rank: what a training script calls, with each release's own order of resets,
// prologues and partitions.
//
// Every call hands back what it would raise. After a failure the state is what the exception left; calling on is
// allowed and does what a script that caught it would see.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coordinator/gradient_buffer.h"
#include "coordinator/model_pass.h"
#include "coordinator/parameter_offload.h"
#include "coordinator/partitioner.h"
#include "coordinator/plan.h"
#include "coordinator/runtime.h"

namespace zero3 {

class Engine {
 public:
  struct Options {
    bool with_optimizer = true;
    bool input_requires_grad = true;
  };

  // deepspeed.initialize on the model below `root`. Several engines may share a process, a model, or modules.
  Engine(Process& process, Module& root, const Behaviour& behaviour, const Settings& settings,
         Communicator& communicator, Observer* observer, Options options, ParamTensors* tensors = nullptr);

  // `root_flow`: of a recorded forward.
  Raised forward(std::span<const Call> root_children, bool grad_enabled,
                 const std::optional<Flow>& root_flow = std::nullopt);
  // children called without their root
  Raised forward_direct(std::span<const Call> calls, bool grad_enabled);
  Raised backward();
  // `overflow`: the gradients overflowed. Where the release looks for that, the optimizer skips the update, and the
  // persistent params do not come back.
  Raised step(bool overflow = false);
  void train(bool mode);

  Raised save_16bit_model();
  Raised consolidated_16bit_state_dict();
  Raised save_checkpoint();
  Raised load_checkpoint();
  Raised empty_partition_cache();
  // Offloads everything that can be; training needs reload_states first.
  Raised offload_states();
  Raised reload_states();
  // with GatheredParameters(params, modifier_rank): the two ends of the block. modifier_rank -1: None.
  Raised gather_enter(std::vector<Param*> params, int modifier_rank);
  Raised gather_exit();
  // with unwrap_model_for_generation(engine)
  Raised unwrap_enter();
  Raised unwrap_exit();
  // Hooks removed and registered again, outside any context.
  Raised register_hooks_again();

  std::span<Param* const> parameters() const { return offload_.parameters(); }
  // Updates that the optimizer has made.
  int64_t optimizer_steps() const { return optimizer_steps_; }

 private:
  struct GatherContext {
    std::vector<Param*> params;
    int modifier_rank;
  };

  Raised backward_without_optimizer();
  Raised in_optimizer_backward(Raised raised) const;
  Raised optimizer_empty_partition_cache();
  void watch_gradients(Process& process);
  Raised on_gradient(Param& param, const Engine& running);
  Raised keep_foreign_gradient(Param& param);
  Raised check_foreign_gradients() const;
  Raised check_gradient_bucket() const;
  Raised step_without_optimizer();
  Raised meet_for_overflow();
  Raised check_averaged_gradients();
  Raised make_folder();
  Raised meet_to_save();
  Raised map_partitions();
  Raised load_offloaded() const;
  Raised load_module_state_dict();
  static void copy_over(Module& module);
  void compare_shapes(const Module& module, const std::string& prefix, std::string& mismatches) const;
  bool is_gradient_accumulation_boundary() const;
  Raised check_missing_gradient() const;
  Raised reduce_gradients();
  Raised partition_gradients() const;
  Raised optimizer_step(bool overflow);
  Raised skip_step();
  Raised checkpoint_prologue();
  Raised checkpoint_epilogue();
  Raised no_attribute(const std::string& object, const std::string& attribute) const;
  Raised missing_method(const std::string& method) const;
  Raised missing_checkpoint_engine(const std::string& method) const;
  Raised consolidate(Module& module);
  void add_to_state_dict(const Module& module) const;
  Raised gather_persistent();

  Runtime runtime_;
  Options options_;
  Partitioner partitioner_;
  ParameterOffload offload_;
  std::unique_ptr<ModelPass> model_pass_;
  std::unique_ptr<OptimizerTensors> optimizer_tensors_;  // null: without optimizer, or without values
  std::vector<GatherContext> contexts_;
  int micro_steps_ = 0;
  int64_t optimizer_steps_ = 0;
  bool states_offloaded_ = false;
  std::vector<const Param*> saved_whole_;  // whose data the last save_checkpoint found whole
  // averaged_gradients[0]: set by every backward, used up by a step, absent at first and once offloaded.
  enum class Averaged { kAbsent, kNone, kThere };
  Averaged averaged_gradients_ = Averaged::kAbsent;
  GradientBuffer gradient_buffer_;
  bool has_begun_backward_ = false;
  std::vector<Param*> foreign_gradients_;  // in the bucket, by the backward of another engine
};

}  // namespace zero3
