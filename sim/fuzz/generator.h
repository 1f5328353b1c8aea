// Random experiments for differential fuzzing: model, settings and program number so-and-so of a seed.
//
// An experiment is a function of seed, index, target and ranks alone, the same on every machine. All ranks run the
// same program.
#pragma once

#include <cstdint>

#include "sim/fuzz/fuzz_target.h"
#include "sim/program.h"

namespace zero3::sim {

Experiment generate(uint64_t seed, uint64_t index, const FuzzTarget& target, int ranks);

}  // namespace zero3::sim
