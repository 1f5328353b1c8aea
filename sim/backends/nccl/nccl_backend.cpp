// --backend nccl: the ranks are the processes of an MPI job, each with a GPU of its own, and NCCL moves their data.
#include <exception>
#include <memory>

#include "coordinator/param.h"
#include "sim/backends/mpi/job_backend.h"
#include "sim/backends/nccl/nccl_communicator.h"
#include "sim/backends/nccl/nccl_device.h"

namespace zero3::sim {
namespace {

// Gives a param's memory back where the rank partitions it.
class MemoryWatcher final : public RankWatcher {
 public:
  MemoryWatcher(RankWatcher& watcher, NcclCommunicator& communicator)
      : watcher_(watcher), communicator_(communicator) {}

  void on_event(const Event& event) override {
    watcher_.on_event(event);
    if (event.kind != EventKind::kRelease) return;
    for (const Param* param : event.params) communicator_.released(param->ds_id);
  }
  void after_statement(const Statement& statement, const Failure* failure,
                       const RankRunner& runner) override {
    watcher_.after_statement(statement, failure, runner);
  }

 private:
  RankWatcher& watcher_;
  NcclCommunicator& communicator_;
};

class NcclBackend final : public JobBackend {
 public:
  using JobBackend::JobBackend;
  NcclBackend(const NcclBackend&) = delete;
  NcclBackend& operator=(const NcclBackend&) = delete;
  ~NcclBackend() override {
    try {
      if (device_ != nullptr) device_->disconnect(job());
    } catch (const BackendUnavailable&) {
      device_->abort();  // nothing that was reported depends on it
    }
  }

 private:
  void prepare_rank() override { device_ = std::make_unique<NcclDevice>(job()); }
  void prepare_job() override { device_->connect(job()); }
  RankReport run_collectives(const Experiment& experiment, const Release& release, uint64_t seed) override;

  std::unique_ptr<NcclDevice> device_;
};

RankReport NcclBackend::run_collectives(const Experiment& experiment, const Release& release, uint64_t seed) {
  const Behaviour behaviour = behaviour_of(release);
  auto groups = std::make_unique<MpiGroups>(job());
  MarkedData data(job().rank(), job().size());
  auto communicator = std::make_unique<NcclCommunicator>(job(), *groups, *device_, behaviour, data, fault());
  const auto leave = [&] {
    static_cast<void>(communicator.release());
    static_cast<void>(groups.release());
  };
  RecordingAuditor auditor(job().rank(), experiment.settings, behaviour);
  MemoryWatcher watcher(auditor, *communicator);
  RankReport report;
  try {
    report.run = run_rank(experiment, behaviour, *communicator, seed, &watcher);
    communicator->finish_all();
  } catch (const std::exception&) {
    device_->abort();  // kernels that wait for other ranks end before the process does
    leave();
    throw;
  }
  report.recording = auditor.recording();
  report.audit = auditor.audit();
  report.wrong = data.wrong();
  report.device = communicator->usage();
  if (communicator->has_open_collectives()) leave();
  return report;
}

}  // namespace

std::unique_ptr<Backend> open_nccl_backend(const BackendOptions& options) {
  return std::make_unique<NcclBackend>(options);
}

}  // namespace zero3::sim
