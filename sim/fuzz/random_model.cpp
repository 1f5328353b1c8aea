#include "sim/fuzz/random_model.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>

#include "coordinator/behaviour.h"

namespace zero3::sim {
namespace {

constexpr int kMaxModules = 14;
constexpr int kMaxDepth = 3;
constexpr int64_t kSide = 8;  // of a Linear's weight

constexpr auto kNumels = std::to_array<int64_t>({1, 8, 8, 16, 40, 64, 64, 64, 100, 250});

class ModelMaker {
 public:
  ModelMaker(Draws draws, const FuzzTarget& target)
      : draws_(draws), target_(target), behaviour_(behaviour_of(target.release)) {}

  RandomModel make() {
    if (draws_.chance(150)) {
      make_flat();
    } else {
      do make_tree();
      while (spec().modules.size() > kMaxModules);
      model_.habits.resize(spec().modules.size());
      decorate();
    }
    model_.habits.resize(spec().modules.size());
    qualify_names(spec());
    return std::move(model_);
  }

 private:
  ModelSpec& spec() { return model_.spec; }
  ModuleSpec& module(int index) { return spec().modules[static_cast<size_t>(index)]; }
  RandomModel::Habit& habit(int index) { return model_.habits[static_cast<size_t>(index)]; }
  int count() { return static_cast<int>(spec().modules.size()); }
  // Any module but the root.
  int any_module() { return draws_.between(1, count() - 1); }

  int add_module(std::string name, std::string type) {
    ModuleSpec made;
    made.name = std::move(name);
    made.type = std::move(type);
    spec().modules.push_back(std::move(made));
    return count() - 1;
  }

  void add_linear_params(int index, bool bias) {
    module(index).params.push_back({.name = "weight", .shape = {kSide, kSide}});
    if (bias) module(index).params.push_back({.name = "bias", .shape = {kSide}});
  }

  void make_flat() {
    model_.flat = true;
    model_.called = draws_.between(2, 4);
    const bool biases = draws_.chance(300);
    add_module("root", "Root");
    for (int i = 0; i < model_.called + draws_.between(0, 2); ++i) {
      const int child = add_module(std::string(1, static_cast<char>('A' + i)), "Linear");
      add_linear_params(child, biases && draws_.chance(500));
      module(0).children.push_back(child);
    }
    if (!draws_.chance(200)) return;
    const int holder = add_module("X", "Holder");
    module(holder).children.push_back(1);
    module(0).children.push_back(holder);
  }

  void make_tree() {
    model_ = RandomModel{};
    next_leaf_ = 'a';
    next_parent_ = 'A';
    empty_params_ = draws_.chance(100);
    add_module("root", "Root");
    if (draws_.chance(250)) add_params(0, draws_.between(1, 2));
    for (int left = draws_.between(2, 4); left > 0; --left) add_child(0, 1);
    if (own_params(spec()).empty()) module(module(0).children.front()).params = {{"p0", {kSide * kSide}}};
  }

  void add_child(int parent, int depth) {
    const bool has_children =
        depth < kMaxDepth && next_parent_ <= 'H' && draws_.chance(depth == 1 ? 600 : 300);
    const int made = add_module(std::string(1, has_children ? next_parent_++ : next_leaf_++), "Module");
    module(parent).children.push_back(made);
    if (has_children) {
      if (draws_.chance(500)) add_params(made, draws_.between(0, 2));
      for (int left = draws_.between(1, 3); left > 0; --left) add_child(made, depth + 1);
    } else if (draws_.chance(150)) {
      module(made).type = "Linear";
      add_linear_params(made, draws_.chance(400));
    } else if (draws_.chance(930)) {
      add_params(made, draws_.between(1, 3));
    }
  }

  void add_params(int owner, int number) {
    for (int i = 0; i < number; ++i) {
      int64_t numel = draws_.pick(kNumels);
      if (empty_params_ && draws_.chance(90)) numel = 0;
      std::vector<int64_t> shape = {numel};
      if (numel > 1 && numel % kSide == 0 && draws_.chance(300)) shape = {numel / kSide, kSide};
      module(owner).params.push_back({.name = "p" + std::to_string(i), .shape = std::move(shape)});
    }
  }

  void decorate() {
    if (draws_.chance(250)) share();
    if (draws_.chance(120)) tie();
    if (draws_.chance(300)) freeze();
    if (draws_.chance(200) && behaviour_.leaf_modules) make_leaf();
    if (draws_.chance(250)) {
      for (int left = draws_.between(1, 2); left > 0; --left)
        module(draws_.below(count())).outputs = draws_.between(2, 3);
    }
    if (draws_.chance(500)) checkpoint();
    if (draws_.chance(350)) use_elsewhere(true);
    if (draws_.chance(300)) use_elsewhere(false);
    const std::set<int> in_leaves = below_leaves();
    if (const int at = any_module(); draws_.chance(120) && !in_leaves.contains(at))
      habit(at).discard_output = true;
    if (const int at = any_module(); draws_.chance(150) && !in_leaves.contains(at))
      habit(at).detach_input = true;
    if (draws_.chance(60)) model_.with_optimizer = !behaviour_.optimizer_less_engine;
  }

  void collect_below(int top, std::set<int>& found) {
    if (!found.insert(top).second) return;
    for (const int child : module(top).children) collect_below(child, found);
  }

  std::set<int> below(int top) {
    std::set<int> found;
    collect_below(top, found);
    return found;
  }

  std::set<int> below_leaves() {
    std::set<int> found;
    for (int i = 0; i < count(); ++i) {
      if (module(i).leaf) collect_below(i, found);
    }
    return found;
  }

  // Registers a module under one more parent.
  void share() {
    std::vector<int> parents;
    for (int i = 0; i < count(); ++i) {
      if (!module(i).children.empty()) parents.push_back(i);
    }
    const int parent = draws_.pick(parents);
    std::vector<int> candidates;
    for (int i = 1; i < count(); ++i) {
      const auto& known = module(parent).children;
      if (!below(i).contains(parent) && std::ranges::find(known, i) == known.end()) candidates.push_back(i);
    }
    if (!candidates.empty()) module(parent).children.push_back(draws_.pick(candidates));
  }

  // One more name for a parameter, under a module that has none like it.
  void tie() {
    const ParamRef param = draws_.pick(own_params(spec()));
    const int owner = any_module();
    if (owner == param.module || module(owner).type == "Linear") return;
    const ParamSpec& tied = module(param.module).params[static_cast<size_t>(param.param)];
    module(owner).params.push_back({.name = "p" + std::to_string(module(owner).params.size()),
                                    .shape = tied.shape,
                                    .tied_module = param.module,
                                    .tied_param = param.param});
  }

  // Some, never all.
  void freeze() {
    std::vector<ParamRef> params = own_params(spec());
    draws_.shuffle(params);
    const int wanted = std::min(draws_.between(1, 3), static_cast<int>(params.size()) - 1);
    for (int i = 0; i < wanted; ++i) {
      const ParamRef& frozen = params[static_cast<size_t>(i)];
      module(frozen.module).params[static_cast<size_t>(frozen.param)].requires_grad = false;
    }
    for (ModuleSpec& owner : spec().modules) {
      for (ParamSpec& param : owner.params) {
        if (param.tied_module < 0) continue;
        const ModuleSpec& tied_to = module(param.tied_module);
        param.requires_grad = tied_to.params[static_cast<size_t>(param.tied_param)].requires_grad;
      }
    }
  }

  void make_leaf() {
    std::vector<int> candidates;
    for (int i = 1; i < count(); ++i) {
      if (!module(i).children.empty()) candidates.push_back(i);
    }
    module(candidates.empty() ? any_module() : draws_.pick(candidates)).leaf = true;
  }

  void checkpoint() {
    Checkpointing how = target_.early_stop ? Checkpointing::kNonReentrant : Checkpointing::kWholeRecompute;
    if (draws_.chance(150)) how = Checkpointing::kWholeRecompute;
    if (draws_.chance(400)) how = Checkpointing::kReentrant;
    for (int left = draws_.between(1, 2); left > 0; --left) habit(any_module()).checkpointing = how;
  }

  void use_elsewhere(bool registered) {
    const int user = draws_.below(count());
    std::vector<ParamRef> candidates = own_params(spec());
    std::erase_if(candidates, [user](const ParamRef& param) { return param.module == user; });
    if (candidates.empty()) return;
    const ParamRef used = draws_.pick(candidates);
    module(user).externals.push_back({used.module, used.param, registered});
  }

  Draws draws_;
  const FuzzTarget& target_;
  Behaviour behaviour_;
  RandomModel model_;
  char next_leaf_ = 'a';
  char next_parent_ = 'A';
  bool empty_params_ = false;
};

void qualify_below(ModelSpec& model, int parent, std::set<int>& named) {
  for (const int child : std::vector<int>(model.modules[static_cast<size_t>(parent)].children)) {
    if (!named.insert(child).second) continue;
    ModuleSpec& module = model.modules[static_cast<size_t>(child)];
    if (parent != 0) module.name = model.modules[static_cast<size_t>(parent)].name + "." + module.name;
    qualify_below(model, child, named);
  }
}

}  // namespace

RandomModel random_model(Draws draws, const FuzzTarget& target) { return ModelMaker(draws, target).make(); }

std::vector<ParamRef> own_params(const ModelSpec& model) {
  std::vector<ParamRef> params;
  for (size_t i = 0; i < model.modules.size(); ++i) {
    for (size_t k = 0; k < model.modules[i].params.size(); ++k) {
      if (model.modules[i].params[k].tied_module < 0)
        params.push_back({static_cast<int>(i), static_cast<int>(k)});
    }
  }
  return params;
}

void qualify_names(ModelSpec& model) {
  std::set<int> named = {0};
  qualify_below(model, 0, named);
}

}  // namespace zero3::sim
