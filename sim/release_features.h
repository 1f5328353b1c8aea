// What a program or a model uses that a release does not have.
#pragma once

#include <optional>
#include <string>

#include "coordinator/release.h"
#include "sim/program.h"

namespace zero3::sim {

struct MissingFeature {
  enum class Where { kModel, kEngines, kProgram };
  std::string what;  // "unwrap_model_for_generation"
  Where where;
  Place place;        // of the program's statement
  std::string since;  // "0.15.0 brought it"

  std::string message(const Release& release) const;
};

// The first one, in the order of model, engines, program; nothing if the release has everything.
std::optional<MissingFeature> first_missing(const Experiment& experiment, const Release& release);

}  // namespace zero3::sim
