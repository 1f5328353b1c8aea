// Changes of settings and model that are known to cure something, with their values taken from what one run did.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/release.h"
#include "sim/outcome/outcome.h"
#include "sim/program.h"

namespace zero3::sim {

// How a parameter that was never used came to be gathered.
struct EarlyGather {
  std::string param;         // qualified name
  std::string at;            // the module whose fetch prefetched it
  int64_t numel_before = 0;  // elements that the same prefetch had chosen before it
  int64_t live_numel = 0;    // elements gathered or in flight before that prefetch
};

// Of the parameters that the failure names, or else of those that branches leave out: the first that was prefetched in
// the failing statement, as the rank that fails saw it. Nothing: none of them was prefetched.
std::optional<EarlyGather> find_early_gather(const Experiment& experiment, const Release& release,
                                             uint64_t seed, const Outcome& outcome);

// The least stage3_param_persistence_threshold with which parameters of so many elements persist on the release.
int64_t persisting(int64_t numel, const Release& release);
// Elements of the largest parameter that the failure names, or else that branches leave out; 0: there is none.
int64_t largest_skipped_numel(const Experiment& experiment, const Outcome& outcome);
int64_t largest_numel(const Experiment& experiment);

// The modules that call what branches leave out, without the root.
std::vector<int> branching_modules(const Experiment& experiment);
// They become leaf modules; nothing where only the root branches, or they are leaf modules already.
std::optional<Experiment> leaf_modules_at_branches(const Experiment& experiment);

}  // namespace zero3::sim
