// Saves and gather contexts in a program, and where in it they can stand.
//
// A save is a statement that does nothing but save, or a whole context (GatheredParameters,
// unwrap_model_for_generation) with the statements inside it. A place is the number of statements before it.
#pragma once

#include <cstddef>
#include <vector>

#include "sim/program.h"

namespace zero3::sim {

struct StatementRange {
  size_t begin = 0;
  size_t end = 0;

  bool operator==(const StatementRange&) const = default;
};

// The outermost ones, in the program's order.
std::vector<StatementRange> saves_of(const Program& program);
// Statements that are one evaluation: forwards without gradients, and what switches to evaluation mode and back.
std::vector<StatementRange> evaluations_of(const Program& program);

// By place: no context is open there.
std::vector<bool> places_outside(const Program& program);
// By place: outside, no forward waits for its backward, no backward for its step, and no accumulation is under way.
std::vector<bool> places_after_steps(const Program& program, int accumulation_steps);

// The statements of the range at another place. Precondition: it does not lie inside the range.
Program moved(const Program& program, const StatementRange& range, size_t place);

}  // namespace zero3::sim
