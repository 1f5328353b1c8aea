#include "sim/release_features.h"

#include <algorithm>

#include <fmt/format.h>

#include "coordinator/behaviour.h"
#include "sim/release_selection.h"

namespace zero3::sim {
namespace {

using Met = bool (*)(const Behaviour& behaviour);

using Where = MissingFeature::Where;

MissingFeature missing(const std::string& what, Where where, Place place, Met met) {
  const std::string first =
      first_release_with([met](const Release& release) { return met(behaviour_of(release)); });
  return {what, where, place, first + " brought it"};
}

struct Need {
  const char* what;
  Met met;
};

std::optional<Need> need_of(const Op& op) {
  switch (op.kind) {
    case OpKind::kSave16bit:
    case OpKind::kConsolidate:
      return Need{"way to save 16-bit weights", [](const Behaviour& b) { return b.has_save_16bit; }};
    case OpKind::kEmptyPartitionCache:
      return Need{"empty_partition_cache", [](const Behaviour& b) { return b.has_empty_partition_cache; }};
    case OpKind::kOffloadStates:
    case OpKind::kReloadStates:
      return Need{"offload_states", [](const Behaviour& b) { return b.has_offload_states; }};
    case OpKind::kUnwrapEnter:
      return Need{"unwrap_model_for_generation", [](const Behaviour& b) { return b.has_unwrap; }};
    case OpKind::kGatherEnter:
      if (op.params.size() < 2) return std::nullopt;
      return Need{"GatheredParameters of several params",
                  [](const Behaviour& b) { return b.gathered_takes_lists; }};
    default: return std::nullopt;
  }
}

}  // namespace

std::string MissingFeature::message(const Release& release) const {
  return fmt::format("DeepSpeed {} has no {}", release.text(), what);
}

std::optional<MissingFeature> first_missing(const Experiment& experiment, const Release& release) {
  const Behaviour behaviour = behaviour_of(release);
  if (!behaviour.leaf_modules && std::ranges::any_of(experiment.model.modules, &ModuleSpec::leaf)) {
    return missing("leaf modules", Where::kModel, {}, [](const Behaviour& b) { return b.leaf_modules; });
  }
  if (!behaviour.optimizer_less_engine &&
      !std::ranges::all_of(experiment.engines, &EngineSetup::with_optimizer)) {
    return missing("ZeRO-3 engine without an optimizer", Where::kEngines, {},
                   [](const Behaviour& b) { return b.optimizer_less_engine; });
  }
  for (const Program& program : experiment.rank_programs) {
    for (const Statement& statement : program) {
      for (const Op& op : statement.ops) {
        const std::optional<Need> need = need_of(op);
        if (need && !need->met(behaviour))
          return missing(need->what, Where::kProgram, statement.place, need->met);
      }
    }
  }
  return std::nullopt;
}

}  // namespace zero3::sim
