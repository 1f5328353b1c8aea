// Steps of the recorded runs in which the gradients really overflowed: the values of these programs' weights, which the
// event logs do not hold, ran away, and the optimizer skipped the step, so that the persistent params stayed
// partitioned. Shown by running the same programs on real v0.9.5 with other initial values: there the params come back.
#pragma once

#include <string>

#include "sim/program.h"

namespace zero3::golden {

// Marks the overflowing steps in the program of the recorded block `name` ("N3011.15") of `file`.
void mark_overflows(const std::string& name, const std::string& file, sim::Program& program);

}  // namespace zero3::golden
