#include "sim/scenario/model.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace zero3::sim {
namespace {

constexpr int64_t kMaxNumel = int64_t{1} << 62;

// The first name of a dotted path; takes it off.
std::string_view take_name(std::string_view& path) {
  const size_t dot = std::min(path.find('.'), path.size());
  const std::string_view name = path.substr(0, dot);
  path.remove_prefix(std::min(dot + 1, path.size()));
  return name;
}

}  // namespace

int ScenarioModel::add_root(const std::string& name, const std::string& type) {
  spec.modules.emplace_back();
  spec.modules.back().name = name;
  spec.modules.back().type = type;
  extra.emplace_back();
  extra.back().container = is_container_type(type);
  return static_cast<int>(spec.modules.size()) - 1;
}

int ScenarioModel::add_module(int parent, const std::string& name, const std::string& type) {
  const std::string qualified = parent == 0 ? name : module(parent).name + "." + name;
  const int index = add_root(qualified, type);
  share(parent, name, index);
  return index;
}

int ScenarioModel::add_param(int owner, const std::string& name, std::vector<int64_t> shape) {
  ParamSpec param;
  param.name = name;
  param.shape = std::move(shape);
  module(owner).params.push_back(std::move(param));
  return static_cast<int>(module(owner).params.size()) - 1;
}

void ScenarioModel::share(int parent, const std::string& name, int shared) {
  module(parent).children.push_back(shared);
  extra_of(parent).child_names.push_back(name);
}

int ScenarioModel::tie(int owner, const std::string& name, ParamRef param) {
  // Model wants the owner of the data, not a chain of ties.
  const ParamSpec& first = module(param.module).params[static_cast<size_t>(param.param)];
  if (first.tied_module >= 0) param = {first.tied_module, first.tied_param};
  ParamSpec tied = module(param.module).params[static_cast<size_t>(param.param)];
  tied.name = name;
  tied.tied_module = param.module;
  tied.tied_param = param.param;
  module(owner).params.push_back(std::move(tied));
  return static_cast<int>(module(owner).params.size()) - 1;
}

int ScenarioModel::child(int parent, std::string_view name) const {
  const std::vector<std::string>& names = extra_of(parent).child_names;
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return -1;
  return module(parent).children[static_cast<size_t>(found - names.begin())];
}

int ScenarioModel::find_below(int from, std::string_view path) const {
  while (!path.empty() && from >= 0) from = child(from, take_name(path));
  return from;
}

int ScenarioModel::find(int from, std::string_view path) const {
  int found = find_below(from, path);
  if (found < 0) found = find_below(0, path);
  if (found >= 0) return found;
  const std::string_view root_name = take_name(path);
  for (const auto& [name, index] : other_roots) {
    if (name == root_name) return find_below(index, path);
  }
  return -1;
}

std::optional<ParamRef> ScenarioModel::find_param(int from, std::string_view path) const {
  const size_t dot = path.rfind('.');
  const std::string_view owner_path =
      dot == std::string_view::npos ? std::string_view{} : path.substr(0, dot);
  const std::string_view name = dot == std::string_view::npos ? path : path.substr(dot + 1);
  const int owner = find(from, owner_path);
  if (owner < 0) return std::nullopt;
  const std::vector<ParamSpec>& params = module(owner).params;
  const auto found = std::ranges::find(params, name, &ParamSpec::name);
  if (found == params.end()) return std::nullopt;
  return ParamRef{owner, static_cast<int>(found - params.begin())};
}

std::vector<int> ScenarioModel::callable_children(int parent) const {
  std::vector<int> callable;
  for (const int index : module(parent).children) {
    if (!extra_of(index).container) {
      callable.push_back(index);
      continue;
    }
    const std::vector<int> inner = callable_children(index);
    callable.insert(callable.end(), inner.begin(), inner.end());
  }
  return callable;
}

std::vector<ParamRef> ScenarioModel::params_below(int top) const {
  std::vector<ParamRef> params;
  std::set<std::pair<int, int>> seen_params;
  std::set<int> seen_modules;
  std::vector<int> pending = {top};
  while (!pending.empty()) {
    const int index = pending.back();
    pending.pop_back();
    if (!seen_modules.insert(index).second) continue;
    const std::vector<ParamSpec>& own = module(index).params;
    for (size_t i = 0; i < own.size(); ++i) {
      const int param = static_cast<int>(i);
      const bool tied = own[i].tied_module >= 0;
      const std::pair key = tied ? std::pair(own[i].tied_module, own[i].tied_param) : std::pair(index, param);
      if (seen_params.insert(key).second) params.push_back({index, param});
    }
    const std::vector<int>& children = module(index).children;
    pending.insert(pending.end(), children.rbegin(), children.rend());
  }
  return params;
}

std::optional<int64_t> ScenarioModel::total_numel() const { return sim::total_numel(spec); }

std::optional<int64_t> total_numel(const ModelSpec& model) {
  int64_t total = 0;
  for (const ModuleSpec& each : model.modules) {
    for (const ParamSpec& param : each.params) {
      if (param.tied_module >= 0) continue;
      const std::optional<int64_t> numel = numel_of(param.shape);
      if (!numel || *numel > kMaxNumel - total) return std::nullopt;
      total += *numel;
    }
  }
  return total;
}

TreeExtent extent_of(const ModelSpec& model) {
  const size_t count = model.modules.size();
  std::vector<TreeExtent> extents(count);
  std::vector<bool> entered(count);
  TreeExtent all;
  for (size_t start = 0; start < count; ++start) {
    // Children before parents, without recursion: the depth is what is being measured.
    std::vector<int> pending = {static_cast<int>(start)};
    while (!pending.empty()) {
      const int index = pending.back();
      TreeExtent& own = extents[static_cast<size_t>(index)];
      const std::vector<int>& children = model.modules[static_cast<size_t>(index)].children;
      if (own.visits > 0 || entered[static_cast<size_t>(index)]) {
        pending.pop_back();
        if (own.visits > 0) continue;
        own = {1, 1};
        for (const int child : children) {
          const TreeExtent& below = extents[static_cast<size_t>(child)];
          own.depth = std::min(kMaxTree, std::max(own.depth, below.depth + 1));
          own.visits = std::min(kMaxTree, own.visits + below.visits);
        }
        all = {std::max(all.depth, own.depth), std::max(all.visits, own.visits)};
        continue;
      }
      entered[static_cast<size_t>(index)] = true;
      pending.insert(pending.end(), children.begin(), children.end());
    }
  }
  return all;
}

std::optional<int64_t> numel_of(const std::vector<int64_t>& shape) {
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  int64_t numel = 1;
  for (const int64_t extent : shape) {
    if (numel > kMaxNumel / extent) return std::nullopt;
    numel *= extent;
  }
  return numel;
}

bool is_container_type(std::string_view type) {
  static constexpr std::array<std::string_view, 4> kContainers = {"ModuleList", "ModuleDict", "ParameterList",
                                                                  "ParameterDict"};
  return std::ranges::find(kContainers, type) != kContainers.end();
}

}  // namespace zero3::sim
