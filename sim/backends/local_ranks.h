// Ranks that run beside one another in this process, a thread each, because they exchange data. A run without values
// needs none of this: its ranks run one after the other (simulate.h).
#pragma once

#include <cstdint>

#include "coordinator/release.h"
#include "sim/program.h"
#include "sim/tensors/rank_tensors.h"
#include "sim/watched_run.h"

namespace zero3::sim {

// `seed`: of hash order.
WatchedRun run_local_ranks(const Experiment& experiment, const Release& release, uint64_t seed,
                           const TensorLibrary& library, const TensorOptions& options);

}  // namespace zero3::sim
