// Where a program branches: the forwards of an engine's model that leave calls out, against the whole of what its
// forwards call.
#pragma once

#include <string>
#include <vector>

#include "sim/fixes/plan_edit.h"
#include "sim/program.h"

namespace zero3::sim {

struct ForwardBranch {
  int engine = 0;
  Calls plan;  // of each forward that branches so
  Calls
      whole;  // what it is compared with: all that forwards of this engine call which can be branches of one
  std::vector<LeftOut> left_out;
};

// Each plan once, in the order of ranks and statements. Forwards that call modules without the root are passed over.
std::vector<ForwardBranch> branches_of(const Experiment& experiment);

// The experiment with `plan` instead of the branch's own, in every forward that has it, on all ranks.
Experiment with_plan(const Experiment& experiment, const ForwardBranch& branch, const Calls& plan);

// The same program with nothing left out: each branch is its whole.
Experiment without_branches(const Experiment& experiment);

// The modules of calls by name, with blanks between: "fc2 act"; of more than four the first three and how many.
std::string module_names(const Experiment& experiment, const Calls& calls);
// Of those that are left out of one list.
Calls calls_of(const LeftOut& one, const Calls& whole);

}  // namespace zero3::sim
