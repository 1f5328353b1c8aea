#include "sim/backends/mpi/job_backend.h"

#include <exception>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "sim/backends/real_ranks.h"
#include "sim/bad_input.h"

namespace zero3::sim {

std::string JobBackend::launcher(int ranks) const { return fmt::format("mpirun -np {} ", ranks); }

std::string JobBackend::options() const {
  const std::string fault = options_.fault.empty() ? "" : " --fault " + options_.fault;
  return fmt::format(" --backend {} --timeout {:g}{}{}", options_.name, job_.timeout_ms() / 1000.0, fault,
                     command_words(options_.tensors));
}

std::unique_ptr<RankTensors> JobBackend::make_tensors(const Experiment& experiment,
                                                      const Behaviour& behaviour) const {
  if (tensor_library_ == nullptr) return nullptr;
  return tensor_library_->make(experiment, behaviour, job_.rank(), options_.tensors);
}

void JobBackend::agree(const Standing& own) {
  std::vector<Standing> by_rank;
  for (const std::string& told : job_.gather(to_text(own))) by_rank.push_back(standing_of(told));
  Standing agreed = standing_of(job_.from_rank0(to_text(by_rank.empty() ? own : agreed_on(by_rank))));
  if (!agreed.error.empty()) throw Disagreed{std::move(agreed)};
}

template <class Work>
auto JobBackend::or_abort(const Work& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    job_.abort("out of memory for the parameters that it gathers", exit_code(Verdict::kBackendUnavailable));
  } catch (const std::exception& error) {
    job_.abort(error.what(), exit_code(Verdict::kBackendUnavailable));
  }
}

void JobBackend::prepare() {
  Standing ready{.next = "start"};
  try {
    prepare_rank();
  } catch (const BackendUnavailable& error) {
    ready = {"start", fmt::format("error: {}", error.what()), Verdict::kBackendUnavailable};
  } catch (const BadInput& error) {
    ready = {"start", error.what(), Verdict::kBadInput};
  }
  agree(ready);
  or_abort([this] { prepare_job(); });
}

Verdict JobBackend::together(const std::function<Verdict()>& command) {
  Standing end{.next = "end"};
  Verdict verdict = Verdict::kBadInput;
  try {
    agree({.next = fmt::format("{}{}", binary_text(), options())});
    try {
      if (!options_.fault.empty()) fault_ = parse_fault(options_.fault);
      prepare();
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

void JobBackend::check_ranks(const Experiment& experiment) const {
  const size_t wanted = experiment.rank_programs.size();
  if (wanted == static_cast<size_t>(job_.size())) return;
  throw BadInput(fmt::format("a program of {} rank{} in a job of {} process{}", wanted,
                             wanted == 1 ? "" : "s", job_.size(), job_.size() == 1 ? "" : "es"),
                 fmt::format("mpirun -np {} zero3sim ... --backend {}", wanted, options_.name));
}

std::optional<WatchedRun> JobBackend::run(const Experiment& experiment, const Release& release,
                                          uint64_t seed) {
  check_ranks(experiment);
  agree({.next = run_text(experiment, release.text(), seed)});
  const RankReport own = or_abort([&] { return run_collectives(experiment, release, seed); });
  std::vector<RankReport> reports;
  for (const std::string& told : job_.gather(to_bytes(own))) reports.push_back(rank_report_of(told));
  if (reports.empty()) return std::nullopt;
  check_fault(reports);
  return conclude(experiment, std::move(reports));
}

void JobBackend::check_fault(const std::vector<RankReport>& reports) const {
  if (!fault_) return;
  const auto rank = static_cast<size_t>(fault_->rank);
  const std::string has = rank < reports.size() ? fmt::format("rank {} issues {} collectives", rank,
                                                              reports[rank].run.result.collectives.size())
                                                : fmt::format("there are {} ranks", reports.size());
  throw BadInput("--fault never happened: " + has, "both rank and collective count from 0");
}

}  // namespace zero3::sim
