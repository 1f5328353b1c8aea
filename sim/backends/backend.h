// Where the ranks of a run live: virtual ones in this process, or one a process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "coordinator/release.h"
#include "sim/backend_unavailable.h"
#include "sim/backends/collective.h"
#include "sim/outcome/outcome.h"
#include "sim/program.h"
#include "sim/tensors/rank_tensors.h"
#include "sim/verdict.h"
#include "sim/watched_run.h"

namespace zero3::sim {

// What is wrong with a job of several processes, as the one that reports prints it.
class JobFailed : public std::runtime_error {
 public:
  JobFailed(const std::string& text, Verdict verdict) : std::runtime_error(text), verdict_(verdict) {}
  Verdict verdict() const { return verdict_; }

 private:
  Verdict verdict_;
};

// What --fault injects.
struct KillFault {
  int rank = 0;
  size_t collective = 0;  // index in the rank's own sequence, from 0: killed instead of issuing it
};

// "kill:rank=2,collective=7". Throws BadInput.
KillFault parse_fault(const std::string& text);
// Kills this process where that is the fault of `rank` at the last collective of its sequence.
void die_if_asked(const std::optional<KillFault>& fault, int rank, const std::vector<Collective>& sequence);

struct BackendOptions {
  std::string name = "sim";  // sim, mpi, nccl
  int timeout_ms = 30'000;   // after which a collective never completes
  std::string fault = {};    // empty: none
  TensorOptions tensors = {};
};

class Backend {
 public:
  virtual ~Backend() = default;

  // Ranks of the job this process belongs to; 0: as many as the program has.
  virtual int job_ranks() const = 0;
  // What a line that repeats the run begins and ends with: "mpirun -np 4 ", " --backend mpi".
  virtual std::string launcher(int ranks) const = 0;
  virtual std::string options() const = 0;

  // Runs a command that every process of the job runs. The one that reports has its verdict, and throws what goes wrong
  // in any of them; to the others all is as expected: launchers kill a job as soon as one of its processes fails.
  virtual Verdict together(const std::function<Verdict()>& command) = 0;
  // Whether this process reports what all did.
  virtual bool reports() const = 0;
  // Runs the experiment. Empty in a process that does not report. `seed`: of hash order.
  virtual std::optional<WatchedRun> run(const Experiment& experiment, const Release& release,
                                        uint64_t seed) = 0;
  // Its outcome alone, also where the release lacks something that it uses; of no meaning in a process that does not
  // report.
  virtual Outcome outcome(const Experiment& experiment, const Release& release, uint64_t seed);
};

// Throws BackendUnavailable where this build has none of that name, BadInput where there never is.
std::unique_ptr<Backend> open_backend(const BackendOptions& options);

// Of one library each; a build without the library has one that throws BackendUnavailable.
std::unique_ptr<Backend> open_mpi_backend(const BackendOptions& options);
std::unique_ptr<Backend> open_nccl_backend(const BackendOptions& options);

}  // namespace zero3::sim
