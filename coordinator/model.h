// Modules, their hooks and the process that owns them.
//
// Process is what one rank's Python process holds: the counters from which DeepSpeed hands out module and param ids
// (never restarted, shared by every engine), the forward module stack, and the models.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "coordinator/model_spec.h"
#include "coordinator/param.h"

namespace zero3 {

class InflightRegistry;
class ParameterOffload;
class Engine;

// One torch hook on a module. DeepSpeed registers four a module and engine; the root has one or two more.
struct Hook {
  enum class Kind {
    kResetStep,         // root pre-forward: reset_step
    kPreForward,        // pre-forward: trace, record, fetch
    kPostBackwardWrap,  // pre-forward: wraps inputs so that the module's backward end is seen
    kPostForward,       // forward: release
    kPreBackwardWrap,   // forward: wraps outputs so that the module's backward start is seen
    kLeafInput,         // pre-forward of a leaf: the optimizer waits for its inputs' gradients
    kLeafOutput,        // forward of a leaf: it must have such inputs
    kEndOfForward,      // root forward: reset_step when grad is disabled
  };
  Kind kind;
  ParameterOffload* owner;
};

struct Module {
  std::string name;
  std::string type;
  std::string qualified_type;
  int ds_id = -1;  // the last one given; hooks on a module reachable twice are registered twice
  bool training = true;
  bool is_linear = false;  // torch.nn.Linear
  bool is_leaf = false;
  int outputs = 1;
  std::vector<Param*> own_params;            // named_parameters(recurse=False): no duplicates
  std::vector<std::string> own_param_names;  // what this module calls them
  std::vector<Module*> children;             // children(): no duplicates under one parent
  std::vector<Param*> external_params;
  std::vector<Param*> used_externals;  // what its forward uses beside its own
  std::vector<Param*> ds_recompute_parameters;

  std::vector<Hook> forward_pre_hooks;
  std::vector<Hook> forward_hooks;
  int applied_pre_backward_ref_cnt = 0;
  bool pre_backward_done = false;  // v0.3.12-v0.4.3: a flag where later releases count
  int ds_grads_remaining = 0;
  int leaf_inputs_remaining = 0;
  bool has_grads_remaining = false;              // v0.16.0-v0.16.7: initialised once
  ParameterOffload* pre_bwd_fn_owner = nullptr;  // v0.13.2+: the autograd function is made once a module
  ParameterOffload* post_bwd_fn_owner = nullptr;

  // ds_inflight_param_registry of a root module: one, or one a mode (evaluation, training). v0.9.3 and later.
  std::array<std::shared_ptr<InflightRegistry>, 2> inflight_registries;

  // Its params as DeepSpeed iterates them: own ones (all below it for a leaf), then external ones, which may repeat.
  std::span<Param* const> params() const;
  // The same as a Python set: no duplicates, in set order.
  std::span<Param* const> param_set() const;
  // named_parameters(recurse=True), then its own external ones.
  std::span<Param* const> params_below() const;
  // Adds to the external params; nothing if already there.
  void register_external(Param* param);
  void params_changed() const { cached_ = false; }
  // named_parameters(recurse) and the external ones, whatever is_leaf says.
  std::vector<Param*> collect_params(bool recurse) const;

 private:
  void fill_cache() const;
  mutable bool cached_ = false;
  mutable std::vector<Param*> params_;
  mutable std::vector<Param*> param_set_;
  mutable std::vector<Param*> params_below_;
};

// The modules of one process: usually one model; several roots where engines share modules.
class Model {
 public:
  explicit Model(const ModelSpec& spec);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // By index in the spec; 0 is the root.
  Module& module(int index) { return *modules_[static_cast<size_t>(index)]; }
  Param* param(int module, int index) {
    return spec_params_[static_cast<size_t>(module)][static_cast<size_t>(index)];
  }

 private:
  void make_params(const ModelSpec& spec);
  void connect(const ModelSpec& spec);

  std::vector<std::unique_ptr<Module>> modules_;
  std::vector<std::unique_ptr<Param>> params_;
  std::vector<std::vector<Param*>> spec_params_;
};

// root.modules(): pre-order, no duplicates.
std::vector<Module*> modules_of(Module& root);
// root.parameters(): in that order, no duplicates.
std::vector<Param*> parameters_of(Module& root);

struct Process {
  explicit Process(uint64_t set_order_seed = 0) : seed(set_order_seed) {}

  uint64_t seed;  // 0: Python sets iterate by ds_id; else shuffled by it
  int next_param_id = 0;
  int next_module_id = 0;  // the counter of _register_hooks_recursively: the next root takes it as it stands
  std::vector<Module*> forward_module_stack;  // FWD_MODULE_STACK
  std::vector<Engine*> gradient_watchers;     // whose hooks are on gradients, in the order in which they hear

  int64_t persisted_numel = 0;  // Init.num_persisted_elements

  std::vector<Param*> named_params;  // those with a debug_name

  // debug_extract_module_and_param_names: the params of named_parameters() alone have a name from now on.
  void name_params(Module& root);
  // zero.Init of a model's parameters(): gives ids to those that have none. Hands these back.
  std::vector<Param*> convert(std::span<Param* const> params);
};

}  // namespace zero3
