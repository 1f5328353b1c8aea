// --backend mpi: the ranks are the processes of an MPI job, and MPI moves their data.
#include <memory>

#include "sim/backends/mpi/job_backend.h"
#include "sim/backends/mpi/mpi_communicator.h"
#include "sim/backends/real_ranks.h"

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
  std::unique_ptr<RankTensors> tensors = make_tensors(experiment, behaviour);
  auto marked = std::make_unique<MarkedData>(job().rank(), job().size());
  MovedData& data = tensors ? static_cast<MovedData&>(*tensors) : *marked;
  auto communicator = std::make_unique<MpiCommunicator>(job(), *groups, behaviour, data, fault());
  RankReport report = run_real_rank(experiment, behaviour, *communicator, seed, tensors.get());
  report.wrong = marked->wrong();
  if (communicator->has_open_collectives()) {
    static_cast<void>(communicator.release());
    static_cast<void>(marked.release());
    static_cast<void>(tensors.release());
    static_cast<void>(groups.release());
  }
  return report;
}

}  // namespace

std::unique_ptr<Backend> open_mpi_backend(const BackendOptions& options) {
  return std::make_unique<MpiBackend>(options);
}

}  // namespace zero3::sim
