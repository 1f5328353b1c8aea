// Which rank left the common program first, whoever fails in the end: where the ranks' programs part.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/program.h"

namespace zero3::sim {

// Ranks that do the same at the place where not all do.
struct Branch {
  std::vector<int> ranks;
  std::string statement;  // "" : their program has ended
  std::string detail;  // the module call that the others do not make there, where the statements read alike
};

struct Parting {
  size_t statement = 0;  // index of the first statement that is not the same on all ranks
  std::vector<Branch> branches;
  std::vector<int> started;  // the ranks that left the common program
  std::string why;           // why it is they: "they are fewer", ...
};

// Nothing if all ranks have the same program.
std::optional<Parting> find_parting(const Experiment& experiment);

}  // namespace zero3::sim
