#include "sim/backends/backend.h"

#include <csignal>
#include <cstdio>
#include <regex>

#include <fmt/format.h>

#include "sim/backends/local_ranks.h"
#include "sim/bad_input.h"

namespace zero3::sim {
namespace {

class SimBackend final : public Backend {
 public:
  explicit SimBackend(const BackendOptions& options)
      : tensors_(options.tensors), tensor_library_(open_tensor_library(options.tensors)) {}

  int job_ranks() const override { return 0; }
  std::string launcher(int) const override { return ""; }
  std::string options() const override { return command_words(tensors_); }
  Verdict together(const std::function<Verdict()>& command) override { return command(); }
  bool reports() const override { return true; }
  std::optional<WatchedRun> run(const Experiment& experiment, const Release& release,
                                uint64_t seed) override {
    if (tensor_library_) return run_local_ranks(experiment, release, seed, *tensor_library_, tensors_);
    return simulate_watched(experiment, release, seed);
  }
  Outcome outcome(const Experiment& experiment, const Release& release, uint64_t seed) override {
    if (tensor_library_) return Backend::outcome(experiment, release, seed);
    return outcome_of(experiment, release, {.seed = seed, .runs_what_lacks = true});
  }

 private:
  TensorOptions tensors_;
  std::unique_ptr<TensorLibrary> tensor_library_;  // null: params have no values
};

}  // namespace

Outcome Backend::outcome(const Experiment& experiment, const Release& release, uint64_t seed) {
  const std::optional<WatchedRun> run = this->run(experiment, release, seed);
  return run ? outcome_in(experiment, *run) : Outcome{};
}

KillFault parse_fault(const std::string& text) {
  static const std::regex kForm(R"(kill:rank=(\d{1,4}),collective=(\d{1,9}))");
  std::smatch found;
  if (!std::regex_match(text, found, kForm)) {
    throw BadInput("--fault", text, Place{1, 1}, "no fault of this form",
                   "kill:rank=2,collective=7 kills rank 2 instead of its collective 7, the first being 0");
  }
  return {std::stoi(found[1]), static_cast<size_t>(std::stoul(found[2]))};
}

void die_if_asked(const std::optional<KillFault>& fault, int rank, const std::vector<Collective>& sequence) {
  const size_t index = sequence.size() - 1;
  if (!fault || fault->rank != rank || fault->collective != index) return;
  std::fprintf(stderr, "rank %d: killed by --fault at its collective %zu, %s\n", rank, index,
               sequence.back().text().c_str());
  std::fflush(stderr);
  std::raise(SIGKILL);
}

std::unique_ptr<Backend> open_backend(const BackendOptions& options) {
  if (options.name == "nccl" && options.tensors.wanted())
    throw BadInput("--tensors torch computes on the CPU", "--backend sim or mpi");
  if (options.name == "mpi") return open_mpi_backend(options);
  if (options.name == "nccl") return open_nccl_backend(options);
  if (!options.fault.empty()) throw BadInput("--fault needs processes of its own to kill", "--backend mpi");
  return std::make_unique<SimBackend>(options);
}

}  // namespace zero3::sim
