// Everything that is to be said of one run, ready for any reporter.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/release.h"
#include "sim/audit/audit.h"
#include "sim/backends/device_usage.h"
#include "sim/outcome/outcome.h"
#include "sim/parting.h"
#include "sim/report/recording.h"
#include "sim/simulate.h"
#include "sim/verdict.h"
#include "sim/watched_run.h"

namespace zero3::sim {

// What one experiment does on every known release, oldest first; not audited.
using ReleaseSweep = std::vector<ReleaseOutcome>;

ReleaseSweep sweep_releases(const Experiment& experiment, uint64_t seed);

// Releases by what the same program does on them.
struct AlikeReleases {
  std::vector<Release> alike;  // the same kind of failure at the same step
  std::vector<Release> completes;
  std::map<std::string, std::vector<Release>> otherwise;  // by the failure's name
  std::vector<Release> lacking;                           // releases without something that the program uses
};

struct RunReport {
  std::string scenario;  // a scenario's name, or the short form's program
  std::string title;
  Release release;
  int ranks = 1;
  uint64_t seed = 0;
  Verdict verdict = Verdict::kInconclusive;
  std::string expected;    // what was expected, in words; "" if nothing was
  std::string difference;  // how the run differs from it; "" if it does not
  SimulationResult result;
  std::vector<Recording> recordings;                 // of one rank of each kind
  std::vector<RankAudit> audits;                     // of the same ranks
  std::vector<TensorReport> tensors;                 // of all ranks, by rank; empty: params had no values
  std::vector<DeviceUsage> devices;                  // by rank; empty but on a backend with GPUs
  std::vector<std::vector<std::string>> statements;  // by rank: the program's texts
  AlikeReleases releases;
  std::optional<Parting> parting;  // none: all ranks have the same program
  std::string reproduce;

  const RankFailure* failure() const {
    return result.failed() ? &*result.ranks[static_cast<size_t>(result.first_failed_rank)].failure : nullptr;
  }
  const Recording& recording_of(int rank) const;
  // The releases on which the same program fails, oldest first.
  std::vector<Release> failing_releases() const;
};

struct RunRequest {
  std::string scenario;
  std::string title;
  Release release;
  uint64_t seed = 0;
  std::string reproduce;
};

// The texts of each rank's statements.
std::vector<std::vector<std::string>> statement_texts(const std::vector<Program>& programs);

// Of a run of the experiment on the release; `sweep` is of the same experiment and seed. Verdict and expectation are
// the caller's to set.
RunReport make_report(const Experiment& experiment, const RunRequest& request, const ReleaseSweep& sweep,
                      WatchedRun run);
// The same of a run on virtual ranks.
RunReport make_report(const Experiment& experiment, const RunRequest& request, const ReleaseSweep& sweep);

std::string text_report(const RunReport& report);
// Pretty-printed, one object, newline at the end.
std::string json_report(const RunReport& report);
std::string json_report(const std::vector<RunReport>& reports);

}  // namespace zero3::sim
