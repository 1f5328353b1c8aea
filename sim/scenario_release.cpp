// Which steps and features of a scenario a release does not have.
#include <algorithm>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "coordinator/behaviour.h"
#include "sim/scenario.h"

namespace zero3::sim {
namespace {

// Something that came with some release.
struct Need {
  std::string what;  // "unwrap_model_for_generation"
  Place place;
  bool (*met)(const Behaviour& behaviour);
};

std::optional<Need> need_of(const StepOp& op, Place place) {
  switch (op.kind) {
    case OpKind::kSave16bit:
    case OpKind::kConsolidate:
      return Need{"way to save 16-bit weights", place, [](const Behaviour& b) { return b.has_save_16bit; }};
    case OpKind::kEmptyPartitionCache:
      return Need{"empty_partition_cache", place,
                  [](const Behaviour& b) { return b.has_empty_partition_cache; }};
    case OpKind::kOffloadStates:
    case OpKind::kReloadStates:
      return Need{"offload_states", place, [](const Behaviour& b) { return b.has_offload_states; }};
    case OpKind::kUnwrapEnter:
      return Need{"unwrap_model_for_generation", place, [](const Behaviour& b) { return b.has_unwrap; }};
    case OpKind::kGatherEnter:
      if (op.params.size() < 2) return std::nullopt;
      return Need{"GatheredParameters of several params", place,
                  [](const Behaviour& b) { return b.gathered_takes_lists; }};
    default: return std::nullopt;
  }
}

// The first need that the release does not meet, in the order of the program.
std::optional<Need> first_unmet(const std::vector<Step>& steps, const Behaviour& behaviour) {
  for (const Step& step : steps) {
    for (const StepOp& op : step.ops) {
      std::optional<Need> need = need_of(op, step.place);
      if (need && !need->met(behaviour)) return need;
    }
    for (const StepBranch& branch : step.branches) {
      if (std::optional<Need> need = first_unmet(branch.steps, behaviour)) return need;
    }
  }
  return std::nullopt;
}

std::optional<Need> first_unmet(const Scenario& scenario, const Behaviour& behaviour) {
  const Place model = scenario.file->root().find("model")->place;
  const bool leaves = std::ranges::any_of(scenario.model.spec.modules, &ModuleSpec::leaf);
  if (leaves && !behaviour.leaf_modules) {
    return Need{"leaf modules", model, [](const Behaviour& b) { return b.leaf_modules; }};
  }
  const bool without_optimizer = std::ranges::any_of(
      scenario.engines, [](const ScenarioEngine& engine) { return !engine.setup.with_optimizer; });
  if (without_optimizer && !behaviour.optimizer_less_engine) {
    return Need{"ZeRO-3 engine without an optimizer", scenario.file->root().find("engines")->place,
                [](const Behaviour& b) { return b.optimizer_less_engine; }};
  }
  return first_unmet(scenario.program, behaviour);
}

}  // namespace

void check_release(const Scenario& scenario, const Release& release) {
  const std::optional<Expectation> expected = scenario.expected_for(release);
  if (expected && expected->failure == FailureKind::kMissingMethod) return;
  const std::optional<Need> need = first_unmet(scenario, behaviour_of(release));
  if (!need) return;
  const auto brought = std::ranges::find_if(
      known_releases(), [&need](const Release& each) { return need->met(behaviour_of(each)); });
  const std::string since =
      brought == known_releases().end() ? "no release has it" : fmt::format("{} brought it", brought->text());
  scenario.file->fail(need->place, fmt::format("DeepSpeed {} has no {}", release.text(), need->what), since);
}

}  // namespace zero3::sim
