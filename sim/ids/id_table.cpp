#include "sim/ids/id_table.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "coordinator/engine.h"
#include "sim/backends/sim_communicator.h"

namespace zero3::sim {
namespace {

using ModuleNames = std::vector<std::vector<std::string>>;

// Every path from a root to each module, in registration order: by the module's index.
class Paths {
 public:
  explicit Paths(const Experiment& experiment)
      : model_(experiment.model),
        child_names_(experiment.child_names.empty() ? default_child_names(experiment.model)
                                                    : experiment.child_names),
        names_(model_.modules.size()) {}

  void add(int module, const std::string& path) {
    names_[static_cast<size_t>(module)].push_back(path);
    const std::vector<int>& children = model_.modules[static_cast<size_t>(module)].children;
    for (size_t i = 0; i < children.size(); ++i) {
      const std::string& name = child_names_[static_cast<size_t>(module)][i];
      add(children[i], path.empty() ? name : fmt::format("{}.{}", path, name));
    }
  }

  ModuleNames take() { return std::move(names_); }

 private:
  const ModelSpec& model_;
  std::vector<std::vector<std::string>> child_names_;
  ModuleNames names_;
};

ModuleNames names_of(const Experiment& experiment) {
  Paths paths(experiment);
  std::vector<int> done;
  for (const EngineSetup& engine : experiment.engines) {
    if (std::ranges::find(done, engine.root) != done.end()) continue;
    done.push_back(engine.root);
    paths.add(engine.root,
              engine.root == 0 ? "" : experiment.model.modules[static_cast<size_t>(engine.root)].name);
  }
  return paths.take();
}

// The names but `first`.
std::vector<std::string> others(const std::vector<std::string>& names, const std::string& first) {
  std::vector<std::string> rest;
  for (const std::string& name : names) {
    if (name != first && !name.empty() && std::ranges::find(rest, name) == rest.end()) rest.push_back(name);
  }
  return rest;
}

std::vector<ModuleRow> module_rows(const Experiment& experiment, Model& model, const ModuleNames& names) {
  std::vector<ModuleRow> rows;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) continue;  // below no engine's root
    const Module& module = model.module(static_cast<int>(i));
    rows.push_back({module.ds_id, module.name, experiment.model.modules[i].type, module.is_leaf,
                    others(names[i], module.name)});
  }
  std::ranges::stable_sort(rows, {}, [](const ModuleRow& row) { return std::pair(row.id < 0, row.id); });
  return rows;
}

std::vector<ParamRow> param_rows(const Experiment& experiment, Model& model, const ModuleNames& names) {
  std::map<int, ParamRow> rows;
  std::map<int, std::vector<std::string>> all_names;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::vector<ParamSpec>& specs = experiment.model.modules[i].params;
    for (size_t p = 0; p < specs.size(); ++p) {
      const Param& param = *model.param(static_cast<int>(i), static_cast<int>(p));
      if (param.ds_id < 0) continue;
      for (const std::string& path : names[i])
        all_names[param.ds_id].push_back(path.empty() ? specs[p].name : path + "." + specs[p].name);
      rows.try_emplace(param.ds_id,
                       ParamRow{param.ds_id, param.name, param.ds_shape, param.ds_numel, param.ds_persist});
    }
  }
  std::vector<ParamRow> sorted;
  for (auto& [ds_id, row] : rows) {
    row.also = others(all_names[ds_id], row.name);
    sorted.push_back(std::move(row));
  }
  return sorted;
}

}  // namespace

int64_t IdTable::numel() const {
  int64_t total = 0;
  for (const ParamRow& param : params) total += param.numel;
  return total;
}

IdTable id_table(const Experiment& experiment, const Release& release) {
  Process process;
  Model model(experiment.model);
  const Behaviour behaviour = behaviour_of(release);
  SimCommunicator communicator(0, 1, behaviour);
  std::vector<std::unique_ptr<Engine>> engines;
  for (const EngineSetup& setup : experiment.engines) {
    engines.push_back(std::make_unique<Engine>(process, model.module(setup.root), behaviour,
                                               experiment.settings, communicator, nullptr,
                                               Engine::Options{setup.with_optimizer}));
  }
  const ModuleNames names = names_of(experiment);
  return {module_rows(experiment, model, names), param_rows(experiment, model, names)};
}

}  // namespace zero3::sim
