// The programs for which a fix must hold: the one that is given, and the same with its branch and its saves elsewhere.
//
// A branch that leaves out k calls of a list is varied by leaving out k neighbouring ones at each place of that list,
// in all forwards that branch so; a save, by moving it to each place between two statements that lies in no context.
// One branch or save is varied at a time. docs/fixes.md says the same to users.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sim/program.h"

namespace zero3::sim {

struct Variation {
  std::string what;  // "without fc1 act", "save_checkpoint at the start"; "": the program that is given
  Experiment experiment;
};

struct Variations {
  std::vector<Variation> programs;  // the one that is given first; no two are equal
  size_t possible = 0;  // how many there are beside it; more than are in `programs` where that is cut
};

constexpr size_t kMaxVariations = 200;

// `with_saves`: else the branches alone.
Variations variations_of(const Experiment& experiment, bool with_saves = true);

}  // namespace zero3::sim
