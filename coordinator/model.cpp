#include "coordinator/model.h"

#include <algorithm>
#include <set>

namespace zero3 {
namespace {

// SplitMix64: a fixed, well-mixed function of its argument, the same on every machine.
uint64_t mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

// A list without duplicates, in order of first appearance. The set is asked for membership only.
template <typename T>
class OrderedSet {
 public:
  bool add(T* item) {
    const bool added = seen_.insert(item).second;
    if (added) items_.push_back(item);
    return added;
  }
  std::vector<T*> take() { return std::move(items_); }

 private:
  std::vector<T*> items_;
  std::set<const T*> seen_;  // never iterated
};

void walk(Module& module, OrderedSet<Module>& seen) {
  if (!seen.add(&module)) return;
  for (Module* child : module.children) walk(*child, seen);
}

std::vector<Module*> modules_below(const Module& module) {
  OrderedSet<Module> below;
  for (Module* child : module.children) walk(*child, below);
  return below.take();
}

}  // namespace

std::span<Param* const> Module::params() const {
  if (!cached_) fill_cache();
  return params_;
}

std::span<Param* const> Module::param_set() const {
  if (!cached_) fill_cache();
  return param_set_;
}

std::span<Param* const> Module::params_below() const {
  if (!cached_) fill_cache();
  if (params_below_.empty()) params_below_ = collect_params(true);
  return params_below_;
}

void Module::register_external(Param* param) {
  if (std::ranges::find(external_params, param) != external_params.end()) return;
  external_params.push_back(param);
  params_changed();
}

std::vector<Param*> Module::collect_params(bool recurse) const {
  OrderedSet<Param> params;
  for (Param* param : own_params) params.add(param);
  if (recurse) {
    for (const Module* module : modules_below(*this)) {
      for (Param* param : module->own_params) params.add(param);
    }
  }
  std::vector<Param*> all = params.take();
  all.insert(all.end(), external_params.begin(), external_params.end());
  return all;
}

void Module::fill_cache() const {
  params_ = collect_params(is_leaf);
  OrderedSet<Param> unique;
  for (Param* param : params_) unique.add(param);
  param_set_ = unique.take();
  std::ranges::sort(param_set_, {}, &Param::set_order);
  params_below_.clear();
  cached_ = true;
}

Model::Model(const ModelSpec& spec) {
  for (const ModuleSpec& module_spec : spec.modules) {
    auto module = std::make_unique<Module>();
    module->name = module_spec.name;
    module->type = module_spec.type;
    module->is_linear = module->type == "Linear";
    module->qualified_type = module_spec.qualified_type;
    module->is_leaf = module_spec.leaf;
    module->outputs = module_spec.outputs;
    modules_.push_back(std::move(module));
  }
  make_params(spec);
  connect(spec);
}

void Model::make_params(const ModelSpec& spec) {
  spec_params_.resize(spec.modules.size());
  for (size_t i = 0; i < spec.modules.size(); ++i) {
    for (const ParamSpec& param_spec : spec.modules[i].params) {
      spec_params_[i].push_back(nullptr);
      if (param_spec.tied_module >= 0) continue;
      auto param = std::make_unique<Param>();
      param->name = i == 0 ? param_spec.name : spec.modules[i].name + "." + param_spec.name;
      param->ds_shape = param_spec.shape;
      param->ds_numel = 1;
      for (const int64_t extent : param_spec.shape) param->ds_numel *= extent;
      param->requires_grad = param_spec.requires_grad;
      spec_params_[i].back() = param.get();
      params_.push_back(std::move(param));
    }
  }
}

void Model::connect(const ModelSpec& spec) {
  for (size_t i = 0; i < spec.modules.size(); ++i) {
    const ModuleSpec& module_spec = spec.modules[i];
    OrderedSet<Param> own;
    for (size_t p = 0; p < module_spec.params.size(); ++p) {
      const ParamSpec& tied = module_spec.params[p];
      if (tied.tied_module >= 0) spec_params_[i][p] = param(tied.tied_module, tied.tied_param);
      if (own.add(spec_params_[i][p])) modules_[i]->own_param_names.push_back(module_spec.params[p].name);
    }
    modules_[i]->own_params = own.take();
    OrderedSet<Module> children;
    for (const int child : module_spec.children) children.add(&module(child));
    modules_[i]->children = children.take();
  }
  for (size_t i = 0; i < spec.modules.size(); ++i) {
    for (const ExternalUse& use : spec.modules[i].externals) {
      Param* used = param(use.module, use.param);
      modules_[i]->used_externals.push_back(used);
      if (use.registered) modules_[i]->register_external(used);
    }
  }
}

std::vector<Module*> modules_of(Module& root) {
  OrderedSet<Module> modules;
  walk(root, modules);
  return modules.take();
}

std::vector<Param*> parameters_of(Module& root) {
  OrderedSet<Param> params;
  for (const Module* module : modules_of(root)) {
    for (Param* param : module->own_params) params.add(param);
  }
  return params.take();
}

void Process::name_params(Module& root) {
  for (Param* param : named_params) param->debug_name.clear();
  named_params.clear();
  const std::string root_prefix = root.name + ".";  // which names below the outermost module do not have
  const bool inner = std::ranges::all_of(
      root.children, [&](const Module* child) { return child->name.starts_with(root_prefix); });
  for (const Module* module : modules_of(root)) {
    std::string prefix = module == &root ? "" : module->name + ".";
    if (inner && prefix.starts_with(root_prefix)) prefix.erase(0, root_prefix.size());
    for (size_t i = 0; i < module->own_params.size(); ++i) {
      Param* param = module->own_params[i];
      if (!param->debug_name.empty()) continue;
      param->debug_name = prefix + module->own_param_names[i];
      named_params.push_back(param);
    }
  }
}

std::vector<Param*> Process::convert(std::span<Param* const> params) {
  std::vector<Param*> converted;
  for (Param* param : params) {
    if (param->ds_id >= 0) continue;
    converted.push_back(param);
    param->ds_id = next_param_id++;
    param->set_order = seed == 0 ? static_cast<uint64_t>(param->ds_id)
                                 : mix(seed ^ mix(static_cast<uint64_t>(param->ds_id)));
  }
  return converted;
}

}  // namespace zero3
