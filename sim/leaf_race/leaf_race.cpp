#include "sim/leaf_race/leaf_race.h"

#include <algorithm>

#include <fmt/format.h>

#include "coordinator/engine.h"
#include "coordinator/summary.h"
#include "sim/backends/sim_communicator.h"
#include "sim/bad_input.h"
#include "sim/release_selection.h"

namespace zero3::sim {
namespace {

std::string leaf_names(const ModelSpec& model) {
  constexpr size_t kShown = 5;
  std::string names;
  size_t count = 0;
  for (const ModuleSpec& module : model.modules) {
    if (!module.leaf || ++count > kShown) continue;
    names += (names.empty() ? "" : ", ") + module.name;
  }
  return count > kShown ? fmt::format("{} and {} more", names, count - kShown) : names;
}

size_t chosen_module(const ModelSpec& model, const RaceOptions& options, const std::string& source) {
  const auto& modules = model.modules;
  const auto is_several = [](const ModuleSpec& module) { return module.leaf && module.outputs > 1; };
  auto found = std::ranges::find_if(modules, is_several);
  if (found == modules.end()) found = std::ranges::find_if(modules, &ModuleSpec::leaf);
  if (found == modules.end()) {
    throw BadInput(source + ": the model has no leaf module",
                   "write leaf: true at a module, or its class under leaf_modules: only in leaf modules do "
                   "threads race");
  }
  if (!options.module.empty()) {
    found = std::ranges::find(modules, options.module, &ModuleSpec::name);
    if (found == modules.end()) {
      throw BadInput("--module", options.module, Place{1, 1}, "the model has no module of that name",
                     "its leaf modules: " + leaf_names(model));
    }
    if (!found->leaf) {
      throw BadInput("--module", options.module, Place{1, 1}, "this module is not a leaf module",
                     "the model's leaf modules: " + leaf_names(model));
    }
  }
  if (found->outputs < 2 && !options.threads_given) {
    throw BadInput(
        fmt::format("{}: the leaf module {} returns one tensor, so that its pre-backward hook runs "
                    "once a call",
                    source, found->name),
        "write outputs: 2 if it returns two; give --threads if it is called several times");
  }
  return static_cast<size_t>(found - modules.begin());
}

ZeroParamStatus status_of(RaceStatus status) {
  switch (status) {
    case RaceStatus::kNotAvailable: return ZeroParamStatus::kNotAvailable;
    case RaceStatus::kInflight: return ZeroParamStatus::kInflight;
    case RaceStatus::kAvailable: return ZeroParamStatus::kAvailable;
  }
  return ZeroParamStatus::kNotAvailable;
}

}  // namespace

RacingLeaf racing_leaf(const Experiment& experiment, const Release& release, const RaceOptions& options,
                       const std::string& source) {
  const size_t index = chosen_module(experiment.model, options, source);
  RacingLeaf leaf;
  leaf.behaviour = behaviour_of(release);
  if (!leaf.behaviour.leaf_modules) {
    const auto has = [](const Release& r) { return behaviour_of(r).leaf_modules; };
    throw BadInput(fmt::format("DeepSpeed {} has no leaf modules", release.text()),
                   first_release_with(has) + " brought them");
  }
  leaf.ranks = static_cast<int>(experiment.rank_programs.size());
  SimCommunicator communicator(0, leaf.ranks, leaf.behaviour);
  Process process;
  Model model(experiment.model);
  for (const EngineSetup& setup : experiment.engines) {
    const Engine engine(process, model.module(setup.root), leaf.behaviour, experiment.settings, communicator,
                        nullptr, Engine::Options{setup.with_optimizer, experiment.input_requires_grad});
  }
  const Module& module = model.module(static_cast<int>(index));
  leaf.name = module.name;
  leaf.type = module.type;
  leaf.ds_id = module.ds_id;
  leaf.outputs = module.outputs;
  leaf.leaf_modules = static_cast<size_t>(std::ranges::count_if(experiment.model.modules, &ModuleSpec::leaf));
  for (const Param* param : module.param_set()) {
    if (param->ds_persist) continue;
    ++leaf.partitioned;
    if (leaf.params.size() < static_cast<size_t>(options.params)) leaf.params.push_back(*param);
  }
  leaf.setup = {.params = static_cast<int>(leaf.params.size()),
                .threads = options.threads,
                .fetch_lock = leaf.behaviour.leaf_fetch_lock,
                .skips_gather = leaf.behaviour.world_one_skips_gather && leaf.ranks == 1,
                .prefetched = options.prefetched};
  return leaf;
}

bool same_race(const RacingLeaf& a, const RacingLeaf& b) {
  const auto same_param = [&](const Param& x, const Param& y) {
    return ds_summary(x, a.behaviour, a.ranks) == ds_summary(y, b.behaviour, b.ranks);
  };
  return a.setup == b.setup && a.ds_id == b.ds_id && a.partitioned == b.partitioned &&
         std::ranges::equal(a.params, b.params, same_param);
}

std::string RacingLeaf::local_name(int param) const {
  const std::string& whole = params[static_cast<size_t>(param)].name;
  return whole.starts_with(name + ".") ? whole.substr(name.size() + 1) : whole;
}

std::string RacingLeaf::exception(const RaceStep& step) const {
  switch (*step.failure) {
    case RaceFailure::kGatherPartitioned:
    case RaceFailure::kHandleMade:
    case RaceFailure::kAlreadyInRegistry:
    case RaceFailure::kRegisterNotInflight: return "RuntimeError";
    case RaceFailure::kPoppedMeanwhile: return "KeyError";
    case RaceFailure::kRegisterInflight:
    case RaceFailure::kHandleWaited:
    case RaceFailure::kNotAvailable: return "AssertionError";
  }
  return "";
}

std::string RacingLeaf::text(const RaceStep& step, const RaceState& state) const {
  const auto index = static_cast<size_t>(step.param);
  Param param = params[index];
  param.ds_status = status_of(state.params[index].status);
  param.data_is_full = state.params[index].full;
  param.ds_active_sub_modules.clear();
  if (state.params[index].active) param.ds_active_sub_modules.add(ds_id);
  std::string summary = ds_summary(param, behaviour, ranks);
  switch (*step.failure) {
    case RaceFailure::kGatherPartitioned:
      return setup.skips_gather ? "expect param.ds_status == ZeroParamStatus.NOT_AVAILABLE, got" + summary
                                : summary;
    case RaceFailure::kHandleMade: {
      const uint8_t group = state.threads[static_cast<size_t>(step.thread)].group;
      const bool single = (group & (group - 1)) == 0;
      return "expected param " + summary + (single ? " to be available" : " to not be available");
    }
    case RaceFailure::kRegisterInflight:
    case RaceFailure::kNotAvailable: return summary;
    case RaceFailure::kAlreadyInRegistry: return summary + " already in registry";
    case RaceFailure::kRegisterNotInflight:
      return "attempted to add non-inflight parameter to registry " + summary;
    case RaceFailure::kPoppedMeanwhile: return parameter_repr(param);
    case RaceFailure::kHandleWaited: return "expected param " + summary + " to be inflight";
  }
  return "";
}

}  // namespace zero3::sim
