// Random plans: what a forward calls, as the model has it, or with modules left out, repeated and reordered.
#pragma once

#include <string>
#include <vector>

#include "sim/fuzz/random_model.h"
#include "sim/program.h"
#include "sim/split_mix.h"

namespace zero3::sim {

// `mutation_per_mille`: how probable each kind of change is at each module; 0: all children in order.
std::vector<PlannedCall> random_plan(const RandomModel& model, int mutation_per_mille, Draws& draws);

// "A[ab]c", modules by the last part of their names.
std::string plan_text(const std::vector<PlannedCall>& plan, const ModelSpec& model);

}  // namespace zero3::sim
