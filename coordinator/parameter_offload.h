// DeepSpeedZeRoOffload: registers the hooks on a model's modules and leads them to the right coordinator.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "coordinator/model.h"
#include "coordinator/param_coordinator.h"
#include "coordinator/partitioner.h"
#include "coordinator/runtime.h"

namespace zero3 {

class ParameterOffload {
 public:
  // Converts the params below `root`, marks the persistent ones and registers every hook.
  ParameterOffload(Process& process, Module& root, Runtime& runtime, Partitioner& partitioner);
  ~ParameterOffload();
  ParameterOffload(const ParameterOffload&) = delete;
  ParameterOffload& operator=(const ParameterOffload&) = delete;

  // What the hooks call.
  Raised pre_sub_module_forward(Module& module);
  Raised post_sub_module_forward(Module& module);
  Raised pre_sub_module_backward(Module& module);
  Raised post_sub_module_backward(Module& module);
  Raised start_of_forward();
  Raised end_of_forward();

  // Root and all below it, ids handed out anew: _register_deepspeed_module(root).
  Raised register_module_hooks();
  // The optimizer's hooks on leaf modules, which stay when the others are removed.
  void register_leaf_hooks();
  // The hooks of register_module_hooks; the root's reset hooks stay.
  void remove_module_hooks();

  Raised partition_all_parameters();
  Raised reset_after_backward();
  // All coordinators: is a forward that starts now inside a backward pass?
  void set_recomputing(bool recomputing);
  ParamCoordinator& coordinator(bool training);
  std::span<Param* const> persistent_parameters() const { return persistent_; }
  Module& root() { return root_; }
  std::span<Module* const> modules() const { return modules_; }
  std::span<Param* const> parameters() const { return parameters_; }

 private:
  void mark_at_conversion(std::span<Param* const> converted);
  void mark_persistent_parameters();
  std::unique_ptr<ParamCoordinator> make_coordinator(bool training);
  void register_module(Module& module);

  Process& process_;
  Module& root_;
  Runtime& runtime_;
  Partitioner& partitioner_;
  std::vector<Module*> modules_;
  std::vector<Param*> parameters_;
  std::vector<Param*> persistent_;
  std::unique_ptr<ParamCoordinator> coordinators_[2];  // by training, if there is one a mode; else only [1]
};

}  // namespace zero3
