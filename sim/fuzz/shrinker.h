// The smallest experiment that still does something, by taking things away: delta debugging.
//
// Statements, ranks, operations, modules, parameters, plan pieces, flags, sizes and settings are taken out or made
// plain, over and over, until nothing more can go. Deterministic. The judge is asked about well-formed experiments
// alone; the result is one about which it said yes, or the experiment given.
#pragma once

#include <cstddef>
#include <functional>

#include "sim/program.h"

namespace zero3::sim {

// Whether an experiment still does it.
using StillDoes = std::function<bool(const Experiment& experiment)>;

struct Shrunk {
  Experiment experiment;
  size_t asked = 0;      // how often the judge was
  bool finished = true;  // false: the limit ended it, it may not be the smallest
};

// Asks at most `limit` times.
Shrunk shrink(const Experiment& experiment, const StillDoes& still_does, size_t limit);

}  // namespace zero3::sim
