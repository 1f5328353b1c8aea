// What ranks that ran beside one another came to, in threads or processes of their own, from what each of them reports.
#pragma once

#include <cstdint>
#include <vector>

#include "coordinator/behaviour.h"
#include "sim/backends/rank_report.h"
#include "sim/program.h"
#include "sim/watched_run.h"

namespace zero3::sim {

// Runs this rank's program and watches it. `seed`: of hash order. `tensors`: null where params have no values.
RankReport run_real_rank(const Experiment& experiment, const Behaviour& behaviour,
                         RankCommunicator& communicator, uint64_t seed, RankTensors* tensors);

// `reports`: by rank. Matches the ranks' sequences as the in-process backend does, so that both say the same; then
// holds against it what really happened: which ranks gave up waiting, which data arrived. Throws BackendUnavailable
// where a rank gave up too early, or ranks did what their programs do not say.
WatchedRun conclude(const Experiment& experiment, std::vector<RankReport> reports);

}  // namespace zero3::sim
