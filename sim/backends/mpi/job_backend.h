// What backends whose ranks are the processes of an MPI job have in common: they say how they stand before anything is
// done together, run their own ranks, and rank 0 concludes. How a rank's collectives move is the backend's.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/backends/backend.h"
#include "sim/backends/mpi/mpi_job.h"
#include "sim/backends/rank_report.h"
#include "sim/backends/standing.h"

namespace zero3::sim {

class JobBackend : public Backend {
 public:
  explicit JobBackend(const BackendOptions& options)
      : options_(options), tensor_library_(open_tensor_library(options.tensors)), job_(options.timeout_ms) {}

  int job_ranks() const final { return job_.size(); }
  std::string launcher(int ranks) const final;
  std::string options() const final;
  Verdict together(const std::function<Verdict()>& command) final;
  bool reports() const final { return job_.rank() == 0; }
  std::optional<WatchedRun> run(const Experiment& experiment, const Release& release, uint64_t seed) final;

 protected:
  // What the backend needs beside MPI, made ready before the command runs: what a rank finds out alone, then, where no
  // rank had an error, what takes all of them. What the second throws ends the job.
  virtual void prepare_rank() {}
  virtual void prepare_job() {}
  // This rank's program. What it throws ends the job.
  virtual RankReport run_collectives(const Experiment& experiment, const Release& release, uint64_t seed) = 0;

  MpiJob& job() { return job_; }
  // Of this rank; null where params have no values.
  std::unique_ptr<RankTensors> make_tensors(const Experiment& experiment, const Behaviour& behaviour) const;
  const std::optional<KillFault>& fault() const { return fault_; }

 private:
  // Thrown in every process where one has an error, or all are not about to do the same.
  struct Disagreed {
    Standing standing;
  };

  void agree(const Standing& own);
  void prepare();
  void check_ranks(const Experiment& experiment) const;
  // Hands back what `work` does; what it throws ends the job, since the others would wait.
  template <class Work>
  auto or_abort(const Work& work);
  void check_fault(const std::vector<RankReport>& reports) const;

  BackendOptions options_;
  std::unique_ptr<TensorLibrary> tensor_library_;  // null: params have no values
  std::optional<KillFault> fault_;
  MpiJob job_;
};

}  // namespace zero3::sim
