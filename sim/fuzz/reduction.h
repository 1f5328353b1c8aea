// An experiment with something taken out of it, still whole: what the shrinker tries.
//
// All functions give back a new experiment and leave everything that is not asked for as it was. Where ranks run the
// same program, they still do.
#pragma once

#include <cstddef>
#include <set>
#include <vector>

#include "sim/program.h"

namespace zero3::sim {

// Only these modules; index 0 must be among them. The children of a module that is gone hang from its parent, the calls
// that it made are made by its caller; uses of its parameters are gone, and a parameter tied to one of them becomes one
// of its own.
Experiment with_modules(const Experiment& experiment, const std::set<int>& kept);

// Without one parameter, as above.
Experiment without_param(const Experiment& experiment, ParamRef param);

// Modules that hang below `top` and nowhere else, `top` among them.
std::set<int> only_below(const ModelSpec& model, int top);

// Without statements `first` to `last - 1` of each rank's program.
Experiment without_statements(const Experiment& experiment, size_t first, size_t last);

// Without one operation; the other end of its context is gone with it.
Experiment without_op(const Experiment& experiment, size_t statement, size_t op);

// Whether such a program can be run at all, so that a difference in it means something: contexts nest and are closed,
// backward has a forward before it and load a save, gathers have parameters, engines something to train.
bool well_formed(const Experiment& experiment);

}  // namespace zero3::sim
