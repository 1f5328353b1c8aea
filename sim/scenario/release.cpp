// Which steps and features of a scenario a release does not have.
#include "sim/release_features.h"
#include "sim/scenario/scenario.h"

namespace zero3::sim {
namespace {

Place place_of(const Scenario& scenario, const MissingFeature& missing) {
  if (missing.where == MissingFeature::Where::kProgram) return missing.place;
  const bool engines = missing.where == MissingFeature::Where::kEngines;
  return scenario.file->root().find(engines ? "engines" : "model")->place;
}

std::optional<MissingFeature> unexpectedly_missing(const Scenario& scenario, const Experiment& experiment,
                                                   const Release& release) {
  const std::optional<Expectation> expected =
      scenario.expected_for(release, static_cast<int>(experiment.rank_programs.size()));
  if (expected && expected->failure == FailureKind::kMissingMethod) return std::nullopt;
  return first_missing(experiment, release);
}

}  // namespace

bool can_run(const Scenario& scenario, const Experiment& experiment, const Release& release) {
  return !unexpectedly_missing(scenario, experiment, release);
}

void check_release(const Scenario& scenario, const Experiment& experiment, const Release& release) {
  const auto missing = unexpectedly_missing(scenario, experiment, release);
  if (missing) scenario.file->fail(place_of(scenario, *missing), missing->message(release), missing->since);
}

}  // namespace zero3::sim
