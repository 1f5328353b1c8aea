// --backend mpi: the ranks are the processes of an MPI job, and MPI moves their data.
#include <memory>

#include "sim/backends/mpi/job_backend.h"
#include "sim/backends/mpi/mpi_communicator.h"

namespace zero3::sim {
namespace {

class MpiBackend final : public JobBackend {
 public:
  using JobBackend::JobBackend;

 private:
  RankReport run_collectives(const Experiment& experiment, const Release& release, uint64_t seed) override;
};

RankReport MpiBackend::run_collectives(const Experiment& experiment, const Release& release, uint64_t seed) {
  const Behaviour behaviour = behaviour_of(release);
  auto groups = std::make_unique<MpiGroups>(job());
  auto data = std::make_unique<MarkedData>(job().rank(), job().size());
  auto communicator = std::make_unique<MpiCommunicator>(job(), *groups, behaviour, *data, fault());
  RecordingAuditor watcher(job().rank(), experiment.settings, behaviour);
  RankReport report{.run = run_rank(experiment, behaviour, *communicator, seed, &watcher),
                    .recording = watcher.recording(),
                    .audit = watcher.audit(),
                    .wrong = data->wrong()};
  if (communicator->has_open_collectives()) {
    static_cast<void>(communicator.release());
    static_cast<void>(data.release());
    static_cast<void>(groups.release());
  }
  return report;
}

}  // namespace

std::unique_ptr<Backend> open_mpi_backend(const BackendOptions& options) {
  return std::make_unique<MpiBackend>(options);
}

}  // namespace zero3::sim
