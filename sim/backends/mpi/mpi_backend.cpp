// --backend mpi: the ranks are the processes of an MPI job.
#include <exception>
#include <memory>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "sim/backends/backend.h"
#include "sim/backends/mpi/mpi_communicator.h"
#include "sim/backends/mpi/mpi_job.h"
#include "sim/backends/real_ranks.h"
#include "sim/backends/standing.h"
#include "sim/bad_input.h"

namespace zero3::sim {
namespace {

class MpiBackend final : public Backend {
 public:
  explicit MpiBackend(const BackendOptions& options)
      : options_(options), tensor_library_(open_tensor_library(options.tensors)), job_(options.timeout_ms) {}

  int job_ranks() const override { return job_.size(); }
  std::string launcher(int ranks) const override { return fmt::format("mpirun -np {} ", ranks); }
  std::string options() const override {
    const std::string fault = options_.fault.empty() ? "" : " --fault " + options_.fault;
    return fmt::format(" --backend mpi --timeout {:g}{}{}", job_.timeout_ms() / 1000.0, fault,
                       command_words(options_.tensors));
  }
  Verdict together(const std::function<Verdict()>& command) override;
  bool reports() const override { return job_.rank() == 0; }
  std::optional<WatchedRun> run(const Experiment& experiment, const Release& release, uint64_t seed) override;

 private:
  // Thrown in every process where one has an error, or all are not about to do the same.
  struct Disagreed {
    Standing standing;
  };

  void agree(const Standing& own);
  void check_ranks(const Experiment& experiment) const;
  RankReport run_own_rank(const Experiment& experiment, const Release& release, uint64_t seed);
  RankReport run_collectives(const Experiment& experiment, const Release& release, uint64_t seed);
  void check_fault(const std::vector<RankReport>& reports) const;

  BackendOptions options_;
  std::unique_ptr<TensorLibrary> tensor_library_;  // null: params have no values
  std::optional<KillFault> fault_;
  MpiJob job_;
};

void MpiBackend::agree(const Standing& own) {
  std::vector<Standing> by_rank;
  for (const std::string& told : job_.gather(to_text(own))) by_rank.push_back(standing_of(told));
  Standing agreed = standing_of(job_.from_rank0(to_text(by_rank.empty() ? own : agreed_on(by_rank))));
  if (!agreed.error.empty()) throw Disagreed{std::move(agreed)};
}

Verdict MpiBackend::together(const std::function<Verdict()>& command) {
  Standing end{.next = "end"};
  Verdict verdict = Verdict::kBadInput;
  try {
    agree({.next = fmt::format("{}{}", binary_text(), options())});
    try {
      if (!options_.fault.empty()) fault_ = parse_fault(options_.fault);
      verdict = command();
    } catch (const BackendUnavailable& error) {
      end = {"end", fmt::format("error: {}", error.what()), Verdict::kBackendUnavailable};
    } catch (const std::bad_alloc&) {
      end = {"end", "error: out of memory", Verdict::kBackendUnavailable};
    } catch (const BadInput& error) {
      end = {"end", error.what(), Verdict::kBadInput};
    } catch (const std::exception& error) {
      end = {"end", fmt::format("error: {}", error.what()), Verdict::kBadInput};
    }
    agree(end);
  } catch (const Disagreed& disagreed) {
    if (reports()) throw JobFailed(disagreed.standing.error, disagreed.standing.verdict);
  }
  return reports() ? verdict : Verdict::kAsExpected;
}

void MpiBackend::check_ranks(const Experiment& experiment) const {
  const size_t wanted = experiment.rank_programs.size();
  if (wanted == static_cast<size_t>(job_.size())) return;
  throw BadInput(fmt::format("a program of {} rank{} in a job of {} process{}", wanted,
                             wanted == 1 ? "" : "s", job_.size(), job_.size() == 1 ? "" : "es"),
                 fmt::format("mpirun -np {} zero3sim ... --backend mpi", wanted));
}

std::optional<WatchedRun> MpiBackend::run(const Experiment& experiment, const Release& release,
                                          uint64_t seed) {
  check_ranks(experiment);
  agree({.next = run_text(experiment, release.text(), seed)});
  const RankReport own = run_own_rank(experiment, release, seed);
  std::vector<RankReport> reports;
  for (const std::string& told : job_.gather(to_bytes(own))) reports.push_back(rank_report_of(told));
  if (reports.empty()) return std::nullopt;
  check_fault(reports);
  return conclude(experiment, std::move(reports));
}

// The others would wait for a rank that cannot go on.
RankReport MpiBackend::run_own_rank(const Experiment& experiment, const Release& release, uint64_t seed) {
  try {
    return run_collectives(experiment, release, seed);
  } catch (const std::bad_alloc&) {
    job_.abort("out of memory for the parameters that it gathers", exit_code(Verdict::kBackendUnavailable));
  } catch (const std::exception& error) {
    job_.abort(error.what(), exit_code(Verdict::kBackendUnavailable));
  }
}

RankReport MpiBackend::run_collectives(const Experiment& experiment, const Release& release, uint64_t seed) {
  const Behaviour behaviour = behaviour_of(release);
  auto groups = std::make_unique<MpiGroups>(job_);
  std::unique_ptr<RankTensors> tensors;
  if (tensor_library_) tensors = tensor_library_->make(experiment, behaviour, job_.rank(), options_.tensors);
  auto marked = std::make_unique<MarkedData>(job_.rank(), job_.size());
  MovedData& data = tensors ? static_cast<MovedData&>(*tensors) : *marked;
  auto communicator = std::make_unique<MpiCommunicator>(job_, *groups, behaviour, data, fault_);
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

void MpiBackend::check_fault(const std::vector<RankReport>& reports) const {
  if (!fault_) return;
  const auto rank = static_cast<size_t>(fault_->rank);
  const std::string has = rank < reports.size() ? fmt::format("rank {} issues {} collectives", rank,
                                                              reports[rank].run.result.collectives.size())
                                                : fmt::format("there are {} ranks", reports.size());
  throw BadInput("--fault never happened: " + has, "both rank and collective count from 0");
}

}  // namespace

std::unique_ptr<Backend> open_mpi_backend(const BackendOptions& options) {
  return std::make_unique<MpiBackend>(options);
}

}  // namespace zero3::sim
