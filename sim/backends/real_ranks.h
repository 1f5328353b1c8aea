// What ranks that ran in processes of their own came to, from what each of them reports.
#pragma once

#include <vector>

#include "sim/backends/rank_report.h"
#include "sim/program.h"
#include "sim/watched_run.h"

namespace zero3::sim {

// `reports`: by rank. Matches the ranks' sequences as the in-process backend does, so that both say the same; then
// holds against it what really happened: which ranks gave up waiting, which data arrived. Throws BackendUnavailable
// where a rank gave up too early, or ranks did what their programs do not say.
WatchedRun conclude(const Experiment& experiment, std::vector<RankReport> reports);

}  // namespace zero3::sim
