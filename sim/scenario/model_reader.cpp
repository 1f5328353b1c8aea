#include "sim/scenario/model_reader.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "sim/scenario/plan.h"
#include "sim/scenario/preset_reader.h"

namespace zero3::sim {
namespace {

constexpr auto kModuleKeys = std::to_array<std::string_view>(
    {"type", "params", "children", "external", "outputs", "leaf", "frozen", "forward"});
constexpr auto kModelKeys = std::to_array<std::string_view>(
    {"type", "params", "children", "external", "outputs", "leaf", "frozen", "forward", "preset",
     "other_roots", "freeze", "leaf_modules", "gradient_checkpointing"});
constexpr int64_t kMaxOutputs = 1000;
constexpr int64_t kMaxDepth = 500;  // of modules, and of modules that call each other
constexpr int kUnresolved = -1;

bool is_name(std::string_view text) {
  const auto is_part = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !text.empty() && std::ranges::all_of(text, is_part);
}

// Reads in passes, because a module may name any other: the tree first, then what is shared, then params that are
// tied or external, then what is frozen, then the forwards.
class ModelReader {
 public:
  ModelReader(const YamlFile& file, const YamlNode& node, const YamlNode* plans)
      : file_(file),
        node_(file.map(node, "the model", "for example children: {fc1: Linear(4, 4)}")),
        plans_(plans) {}

  ScenarioModel read() {
    if (node_.find("preset") != nullptr) {
      model_ = read_preset(file_, node_);
    } else {
      file_.check_keys(node_, kModelKeys, "the model");
      read_module(node_, model_.add_root("root", "Module"), 0);
    }
    read_other_roots();
    resolve_shared();
    for (const auto& [module, node] : later_) read_params_that_refer(module, *node);
    check_sizes();
    freeze();
    mark_leaves();
    read_forwards();
    check_forwards();
    return std::move(model_);
  }

 private:
  struct Shared {
    int parent;
    size_t position;  // among the parent's children
    const YamlNode* path;
  };

  void read_module(const YamlNode& node, int module, size_t depth) {
    if (depth > kMaxYamlDepth) file_.fail(node.place, "nested too deep");
    if (node.is_scalar()) {
      apply(node, module);
      return;
    }
    if (node.is_null()) return;
    if (module != 0) file_.check_keys(file_.map(node, "a module"), kModuleKeys, "a module");
    later_.emplace_back(module, &node);
    if (const YamlNode* type = node.find("type")) apply(*type, module);
    if (const YamlNode* outputs = node.find("outputs")) {
      const int64_t count = file_.count(*outputs, "outputs", kMaxOutputs);
      if (count < 1) file_.fail(outputs->place, "a module has at least one output");
      model_.module(module).outputs = static_cast<int>(count);
    }
    if (const YamlNode* leaf = node.find("leaf")) model_.module(module).leaf = file_.boolean(*leaf, "leaf");
    if (const YamlNode* params = node.find("params")) read_params(*params, module);
    if (const YamlNode* children = node.find("children")) read_children(*children, module, depth);
  }

  void apply(const YamlNode& type, int module) {
    const std::string& text = file_.text(type, "a type", "for example Linear(4, 4) or ReLU");
    const std::string wrong = apply_layer(model_, module, text);
    if (wrong.empty()) return;
    const bool torn = text.find('(') != std::string::npos && text.back() != ')';
    file_.fail(type.place, wrong,
               torn ? "between { } or [ ] its commas need quotes: \"Linear(4, 4)\""
                    : "or give its parameters: {type: MyLayer, params: {weight: [4, 4]}}");
  }

  // Own params get their place now; those that refer to others are filled in when all are known.
  void read_params(const YamlNode& params, int module) {
    file_.map(params, "params", "for example params: {weight: [4, 4], bias: [4]}");
    for (size_t i = 0; i < params.keys.size(); ++i) {
      const YamlKey& key = params.keys[i];
      check_name(key, "a parameter", module);
      const YamlNode& value = params.items[i];
      const YamlNode* shape = value.is_map() ? value.find("shape") : &value;
      std::vector<int64_t> extents;
      if (value.is_map()) {
        static constexpr auto kKeys = std::to_array<std::string_view>({"shape", "requires_grad", "same_as"});
        file_.check_keys(value, kKeys, "a parameter");
        const bool tied = value.find("same_as") != nullptr;
        if (tied && value.keys.size() > 1)
          file_.fail(key.place, "a tied parameter has no shape or flag of its own");
        if (!tied && shape == nullptr) file_.fail(key.place, fmt::format("'{}' has no shape", key.text));
      }
      if (shape != nullptr) extents = read_shape(*shape, key.text);
      const int param = model_.add_param(module, key.text, extents);
      const YamlNode* requires_grad = value.is_map() ? value.find("requires_grad") : nullptr;
      if (requires_grad != nullptr) {
        model_.module(module).params[static_cast<size_t>(param)].requires_grad =
            file_.boolean(*requires_grad, "requires_grad");
      }
    }
  }

  std::vector<int64_t> read_shape(const YamlNode& node, const std::string& name) {
    std::vector<int64_t> shape;
    const std::string what = fmt::format("an extent of '{}'", name);
    if (node.is_scalar()) {
      shape.push_back(file_.count(node, what));
    } else {
      for (const YamlNode& extent : file_.list(node, "a shape", "for example [1024, 1024]").items) {
        shape.push_back(file_.count(extent, what));
      }
    }
    if (!numel_of(shape)) file_.fail(node.place, fmt::format("'{}' has more than 2^62 elements", name));
    return shape;
  }

  void read_children(const YamlNode& children, int parent, size_t depth) {
    file_.map(children, "children", "for example children: {fc1: Linear(4, 4)}");
    for (size_t i = 0; i < children.keys.size(); ++i) {
      const YamlKey& key = children.keys[i];
      check_name(key, "a module", parent);
      const YamlNode& value = children.items[i];
      const YamlNode* path = value.is_map() ? value.find("same_as") : nullptr;
      if (path == nullptr) {
        read_module(value, model_.add_module(parent, key.text, "Module"), depth + 1);
        continue;
      }
      if (value.keys.size() > 1)
        file_.fail(key.place, "a shared module has nothing of its own beside same_as");
      file_.text(*path, "same_as", "for example {same_as: encoder.embed}");
      shared_.push_back({parent, model_.module(parent).children.size(), path});
      model_.share(parent, key.text, kUnresolved);
    }
  }

  void check_name(const YamlKey& key, const std::string& what, int owner) {
    if (!is_name(key.text)) {
      file_.fail(key.place, fmt::format("'{}' is no name for {}", key.text, what), "letters, digits and _");
    }
    const bool taken = std::ranges::find(model_.module(owner).params, key.text, &ParamSpec::name) !=
                       model_.module(owner).params.end();
    if (taken)
      file_.fail(key.place, fmt::format("the name '{}' is taken by a parameter of this module", key.text));
  }

  void read_other_roots() {
    const YamlNode* roots = node_.find("other_roots");
    if (roots == nullptr) return;
    file_.map(*roots, "other_roots", "for example other_roots: {critic: {children: {head: Linear(4, 1)}}}");
    for (size_t i = 0; i < roots->keys.size(); ++i) {
      const YamlKey& key = roots->keys[i];
      check_name(key, "a root", 0);
      if (model_.child(0, key.text) != kUnresolved || key.text == "root") {
        file_.fail(key.place, fmt::format("the name '{}' is taken", key.text), "give this root another name");
      }
      const int root = model_.add_root(key.text, "Module");
      model_.other_roots.emplace_back(key.text, root);
      read_module(roots->items[i], root, 1);
    }
  }

  // A path may lead through modules that are themselves shared, so: as long as one more can be resolved.
  void resolve_shared() {
    std::vector<Shared> pending = shared_;
    for (bool progress = true; progress && !pending.empty();) {
      progress = false;
      std::vector<Shared> unresolved;
      for (const Shared& shared : pending) {
        const int target = model_.find(0, shared.path->scalar);
        if (target < 0) {
          unresolved.push_back(shared);
          continue;
        }
        progress = true;
        refuse_cycle(shared, target);
        model_.module(shared.parent).children[shared.position] = target;
      }
      pending = std::move(unresolved);
    }
    if (pending.empty()) return;
    const YamlNode& path = *pending.front().path;
    file_.fail(path.place, fmt::format("there is no module '{}'", path.scalar),
               "same_as takes a path from the root, such as encoder.embed_tokens");
  }

  void refuse_cycle(const Shared& shared, int target) {
    std::vector<bool> seen(model_.spec.modules.size());
    std::vector<int> pending = {target};
    while (!pending.empty()) {
      const int module = pending.back();
      pending.pop_back();
      if (module == shared.parent) {
        const std::string& child = model_.extra_of(shared.parent).child_names[shared.position];
        file_.fail(shared.path->place,
                   fmt::format("a cycle in the model: '{}' holds '{}', which is '{}' again",
                               shared.path->scalar, child, shared.path->scalar),
                   "a module cannot be below itself");
      }
      for (const int child : model_.module(module).children) {
        if (child == kUnresolved || seen[static_cast<size_t>(child)]) continue;
        seen[static_cast<size_t>(child)] = true;
        pending.push_back(child);
      }
    }
  }

  void read_params_that_refer(int module, const YamlNode& node) {
    if (const YamlNode* params = node.find("params")) {
      for (size_t i = 0; i < params->keys.size(); ++i) {
        const YamlNode* path = params->items[i].is_map() ? params->items[i].find("same_as") : nullptr;
        if (path != nullptr) tie(module, params->keys[i].text, *path);
      }
    }
    const YamlNode* external = node.find("external");
    if (external == nullptr) return;
    for (const YamlNode& item : file_.list(*external, "external", "for example [encoder.weight]").items) {
      static constexpr auto kKeys = std::to_array<std::string_view>({"param", "registered"});
      if (item.is_map()) file_.check_keys(item, kKeys, "an external parameter");
      const YamlNode* path = item.is_map() ? item.find("param") : &item;
      if (path == nullptr) file_.fail(item.place, "an external parameter needs its param");
      const YamlNode* registered = item.is_map() ? item.find("registered") : nullptr;
      const ParamRef used = find_param(*path);
      model_.module(module).externals.push_back(
          {used.module, used.param, registered != nullptr && file_.boolean(*registered, "registered")});
    }
  }

  void tie(int module, const std::string& name, const YamlNode& path) {
    const ParamRef owner = find_param(path);
    std::vector<ParamSpec>& params = model_.module(module).params;
    const auto placed = std::ranges::find(params, name, &ParamSpec::name);
    const auto position = placed - params.begin();
    if (owner.module == module && owner.param == position)
      file_.fail(path.place, "a parameter tied to itself");
    const YamlNode* source = tied_at(owner);
    if (source != nullptr)
      file_.fail(path.place, fmt::format("'{}' is itself tied", path.scalar),
                 fmt::format("write same_as: {}", source->scalar));
    ParamSpec tied = model_.module(owner.module).params[static_cast<size_t>(owner.param)];
    tied.name = name;
    tied.tied_module = owner.module;
    tied.tied_param = owner.param;
    *placed = std::move(tied);
  }

  // The same_as of a param that has one, whether it was followed already or not.
  const YamlNode* tied_at(ParamRef param) const {
    for (const auto& [module, node] : later_) {
      const YamlNode* params = module == param.module ? node->find("params") : nullptr;
      const std::string& name = model_.module(param.module).params[static_cast<size_t>(param.param)].name;
      const YamlNode* value = params == nullptr ? nullptr : params->find(name);
      if (value != nullptr && value->is_map()) return value->find("same_as");
    }
    return nullptr;
  }

  ParamRef find_param(const YamlNode& path) const {
    const std::string& text = file_.text(path, "a parameter's path", "for example encoder.embed.weight");
    if (const auto param = model_.find_param(0, text)) return *param;
    file_.fail(path.place, fmt::format("there is no parameter '{}'", text),
               "a path from the root, such as fc1.weight");
  }

  void check_sizes() {
    if (!model_.total_numel()) file_.fail(node_.place, "the model has more than 2^62 elements");
    const TreeExtent extent = extent_of(model_.spec);
    if (extent.depth > kMaxDepth)
      file_.fail(node_.place, fmt::format("modules nested more than {} deep", kMaxDepth));
    if (extent.visits >= kMaxTree) {
      file_.fail(node_.place, fmt::format("the model has {} modules or more", kMaxTree),
                 "shared ones count once a parent");
    }
  }

  void freeze_below(int module) {
    for (const ParamRef& param : model_.params_below(module)) freeze_one(param);
  }

  // The owner of a tied parameter and everything tied to it are one tensor.
  void freeze_one(ParamRef param) {
    const ParamSpec& spec = model_.module(param.module).params[static_cast<size_t>(param.param)];
    if (spec.tied_module >= 0) param = {spec.tied_module, spec.tied_param};
    model_.module(param.module).params[static_cast<size_t>(param.param)].requires_grad = false;
  }

  void freeze() {
    for (const auto& [module, node] : later_) {
      const YamlNode* frozen = node->find("frozen");
      if (frozen != nullptr && file_.boolean(*frozen, "frozen")) freeze_below(module);
    }
    const YamlNode* paths = node_.find("freeze");
    if (paths != nullptr) freeze_paths(*paths);
    for (ModuleSpec& module : model_.spec.modules) {
      for (ParamSpec& param : module.params) {
        if (param.tied_module < 0) continue;
        const ModuleSpec& owner = model_.module(param.tied_module);
        param.requires_grad = owner.params[static_cast<size_t>(param.tied_param)].requires_grad;
      }
    }
  }

  void freeze_paths(const YamlNode& paths) {
    for (const YamlNode& path : file_.list(paths, "freeze", "for example [encoder, head.bias]").items) {
      const int module = model_.find(0, file_.text(path, "a path"));
      if (module >= 0) {
        freeze_below(module);
      } else {
        freeze_one(find_param(path));
      }
    }
  }

  // set_z3_leaf_modules takes classes; a path to one module is understood too.
  void mark_leaves() {
    const YamlNode* leaves = node_.find("leaf_modules");
    if (leaves == nullptr) return;
    for (const YamlNode& leaf :
         file_.list(*leaves, "leaf_modules", "for example [MixtralSparseMoeBlock]").items) {
      const std::string& name = file_.text(leaf, "a class or a path");
      int found = 0;
      for (ModuleSpec& module : model_.spec.modules) {
        if (module.type != name) continue;
        module.leaf = true;
        ++found;
      }
      const int module = found > 0 ? kUnresolved : model_.find(0, name);
      if (module >= 0) model_.module(module).leaf = true;
      if (found == 0 && module < 0)
        file_.fail(leaf.place, fmt::format("no module is a '{}' or is at that path", name));
    }
  }

  void read_forwards() {
    PlanReader reader(file_, model_, plans_);
    for (const auto& [module, node] : later_) {
      const YamlNode* forward = node->find("forward");
      if (forward == nullptr || forward->is_null()) continue;
      Plan plan = reader.read(*forward, module);
      model_.extra_of(module).forward = std::move(plan);
      model_.extra_of(module).has_forward = true;
      forward_places_.emplace_back(module, forward->place);
    }
  }

  // A forward may call any module, as in Python; one that comes back to itself never ends.
  void check_forwards() {
    std::vector<int> state(model_.spec.modules.size(), 0);
    for (const auto& [module, place] : forward_places_) visit(module, place, 0, state);
  }

  void visit(int module, Place place, int64_t depth, std::vector<int>& state) {
    constexpr int kOpen = 1;
    constexpr int kDone = 2;
    int& own = state[static_cast<size_t>(module)];
    if (own == kDone) return;
    if (own == kOpen)
      file_.fail(place, fmt::format("'{}' calls itself without end", model_.module(module).name));
    if (depth > kMaxDepth)
      file_.fail(place, fmt::format("more than {} modules call each other in turn", kMaxDepth));
    own = kOpen;
    PlanReader reader(file_, model_, plans_);
    visit_plan(reader.own_forward(module), place, depth, state);
    state[static_cast<size_t>(module)] = kDone;
  }

  void visit_plan(const Plan& plan, Place place, int64_t depth, std::vector<int>& state) {
    for (const PlanItem& item : plan) {
      if (item.own_children) {
        visit_plan(item.children, place, depth, state);
      } else if (item.module >= 0) {
        visit(item.module, place, depth + 1, state);
      }
      for (const int candidate : item.candidates) visit(candidate, place, depth + 1, state);
    }
  }

  const YamlFile& file_;
  const YamlNode& node_;
  const YamlNode* plans_;
  ScenarioModel model_;
  std::vector<Shared> shared_;
  std::vector<std::pair<int, const YamlNode*>> later_;  // modules with a mapping of their own
  std::vector<std::pair<int, Place>> forward_places_;
};

}  // namespace

ScenarioModel read_model(const YamlFile& file, const YamlNode& node, const YamlNode* plans) {
  return ModelReader(file, node, plans).read();
}

}  // namespace zero3::sim
