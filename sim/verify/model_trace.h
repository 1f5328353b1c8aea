// What the model of a release does, as a trace of every rank.
#pragma once

#include <cstdint>
#include <string>

#include "coordinator/behaviour.h"
#include "sim/simulate.h"
#include "sim/verify/trace.h"

namespace zero3::sim {

struct ModelRun {
  RunTrace trace;
  SimulationResult result;
};

ModelRun model_run(const Experiment& experiment, const std::string& name, const Release& release,
                   uint64_t seed);
// The same with another behaviour than the release's.
ModelRun model_run(const Experiment& experiment, const std::string& name, const Release& release,
                   const Behaviour& behaviour, uint64_t seed);

}  // namespace zero3::sim
