// A random program over a model for differential fuzzing: what a training script might do with an engine, and what it
// had better not.
//
// Most programs train on one plan a few times, so that a trace is complete, and then do something else: other plans,
// evaluation, saves, gathers, each release's own calls. Contexts are closed before the program ends; a checkpoint is
// loaded only after one was saved, backward called only after a forward that could have led there.
#pragma once

#include "sim/fuzz/fuzz_target.h"
#include "sim/fuzz/random_model.h"
#include "sim/program.h"
#include "sim/split_mix.h"

namespace zero3::sim {

// For one rank; what it does is fit for a world of `ranks`.
Program random_program(const RandomModel& model, const FuzzTarget& target, int ranks, Draws draws);

}  // namespace zero3::sim
