// A run with all that reports are made from, whatever backend it ran on.
#pragma once

#include <cstdint>
#include <vector>

#include "coordinator/release.h"
#include "sim/audit/audit.h"
#include "sim/backends/device_usage.h"
#include "sim/outcome/outcome.h"
#include "sim/report/recording.h"
#include "sim/simulate.h"
#include "sim/tensors/tensor_report.h"

namespace zero3::sim {

struct WatchedRun {
  SimulationResult result = {};
  std::vector<Recording> recordings = {};  // of one rank of each kind
  std::vector<RankAudit> audits = {};      // of the same ranks
  std::vector<TensorReport> tensors = {};  // of all ranks, by rank; empty where params have no values
  std::vector<DeviceUsage> devices = {};   // by rank; empty but on a backend with GPUs
};

// Records one rank's run, and audits it.
class RecordingAuditor final : public RankWatcher {
 public:
  RecordingAuditor(int rank, const Settings& settings, const Behaviour& behaviour);
  RecordingAuditor(const RecordingAuditor&) = delete;
  RecordingAuditor& operator=(const RecordingAuditor&) = delete;

  void on_event(const Event& event) override;
  void after_statement(const Statement& statement, const Failure* failure, const RankRunner& runner) override;

  const Recording& recording() const { return recording_; }
  RankAudit audit() const { return {recording_.rank, audit_.usage(), audit_.faults()}; }

 private:
  Recording recording_;
  Recorder recorder_;
  Audit audit_;
};

// How it ended, what it printed and what it cost.
Outcome outcome_in(const Experiment& experiment, const WatchedRun& run);

// On virtual ranks in this process. `seed`: of hash order.
WatchedRun simulate_watched(const Experiment& experiment, const Release& release, uint64_t seed);

}  // namespace zero3::sim
