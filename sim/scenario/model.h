// A scenario's model while it is being read, and after: the spec that engines are built from, and what only the reader
// knows: the name each parent calls a child by, which modules are mere containers, and what a forward calls by default.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/model_spec.h"
#include "sim/program.h"

namespace zero3::sim {

// One item of a plan before draws are settled: a module call, or a draw among several.
struct PlanItem {
  int module = -1;            // called; -1: a draw
  bool own_children = false;  // calls what `children` says; else what its model says
  std::vector<PlanItem> children = {};
  std::vector<int> candidates = {};  // of a draw: `drawn` of them are called, in this order
  int drawn = 0;
  bool per_rank = false;  // each rank draws for itself
  Checkpointing checkpointing = Checkpointing::kNone;
  bool detach_input = false;
  bool discard_output = false;
};

using Plan = std::vector<PlanItem>;

struct ScenarioModel {
  struct Extra {                           // parallel to spec.modules
    std::vector<std::string> child_names;  // parallel to ModuleSpec::children
    bool container = false;  // ModuleList and the like: has no forward, its children are called instead
    bool has_forward = false;
    Plan forward = {};  // what it calls; without it: its children, in registration order
  };

  ModelSpec spec;
  std::vector<Extra> extra;
  std::vector<std::pair<std::string, int>> other_roots;  // by name; not below the first root
  int64_t hidden_size = 0;                               // a preset's; 0: not known

  // Building. The first module is the root. Each hands back an index.
  int add_root(const std::string& name, const std::string& type);
  int add_module(int parent, const std::string& name, const std::string& type);
  int add_param(int owner, const std::string& name, std::vector<int64_t> shape);
  // Registers an existing module under one more parent.
  void share(int parent, const std::string& name, int shared);
  // Registers an existing parameter under one more module.
  int tie(int owner, const std::string& name, ParamRef param);

  ModuleSpec& module(int index) { return spec.modules[static_cast<size_t>(index)]; }
  const ModuleSpec& module(int index) const { return spec.modules[static_cast<size_t>(index)]; }
  Extra& extra_of(int index) { return extra[static_cast<size_t>(index)]; }
  const Extra& extra_of(int index) const { return extra[static_cast<size_t>(index)]; }

  // -1: there is none.
  int child(int parent, std::string_view name) const;
  // "layers.0.mlp" as seen from a module; "" is that module.
  int find_below(int from, std::string_view path) const;
  // As seen from `from`, else from the root, else from another root that the path's first name names.
  int find(int from, std::string_view path) const;
  std::optional<ParamRef> find_param(int from, std::string_view path) const;

  // The modules that a container's parent calls for it: its children, those of containers among them.
  std::vector<int> callable_children(int parent) const;
  // module.parameters() as references: pre-order, no duplicates.
  std::vector<ParamRef> params_below(int top) const;
  std::optional<int64_t> total_numel() const;  // zero3::sim::total_numel of the spec
};

// How far a walk over the model from its roots goes, every path to a shared module counted: DeepSpeed registers hooks
// on each. Both stop growing at kMaxTree. Precondition: no cycle.
struct TreeExtent {
  int64_t depth = 0;
  int64_t visits = 0;
};
constexpr int64_t kMaxTree = 1'000'000;
TreeExtent extent_of(const ModelSpec& model);

// Elements of all distinct params; nothing: more than 2^62.
std::optional<int64_t> total_numel(const ModelSpec& model);

// Elements of a shape; nothing: more than 2^62.
std::optional<int64_t> numel_of(const std::vector<int64_t>& shape);

// Whether the name is that of a torch class without a forward.
bool is_container_type(std::string_view type);

// A layer written as torch prints it: "Linear(1024, 1024, bias=False)", "ReLU". Adds its params to the module.
// Hands back what is wrong, "" if nothing.
std::string apply_layer(ScenarioModel& model, int module, std::string_view text);

}  // namespace zero3::sim
