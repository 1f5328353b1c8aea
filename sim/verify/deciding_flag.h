// Which flag of Behaviour decides at a difference: found by trying every value that any release gave it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/behaviour.h"
#include "sim/program.h"
#include "sim/verify/comparison.h"

namespace zero3::sim {

struct DecidingFlag {
  Change change;              // the row that has the value
  bool agrees_whole = false;  // the whole run agrees with it, not just the place that differed
};

// Single changes of the release's behaviour with which the model agrees with the real run at the difference; those with
// which the whole run agrees alone, if there are any. Empty: no single flag does. Precondition: `difference` is that of
// the release's model and `real`.
std::vector<DecidingFlag> deciding_flags(const Experiment& experiment, const Release& release, uint64_t seed,
                                         const RunTrace& real, const Difference& difference);

}  // namespace zero3::sim
