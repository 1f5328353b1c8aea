#include "sim/outcome/outcome.h"

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <utility>

#include "sim/release_features.h"
#include "sim/simulate.h"

namespace zero3::sim {
namespace {

constexpr std::array<std::string_view, 4> kFaultCodes = {"STALE", "KEPT", "NOPREF", "THROWN"};  // by kind
constexpr std::array<std::string_view, 5> kEnds = {"completes", "fails", "hangs", "wrong-data", "lacking"};

// What one rank prints, and its audit. `Watched` outlives the run, its watcher does not.
struct Watched {
  int rank;
  Audit audit;
  std::vector<std::string> printed = {};
};

class Watcher final : public RankWatcher {
 public:
  explicit Watcher(Watched& watched) : watched_(watched) {}

  void on_event(const Event& event) override {
    watched_.audit.on_event(event);
    if (event.kind == EventKind::kPrint) watched_.printed.emplace_back(event.text);
  }
  void after_statement(const Statement& statement, const Failure* failure,
                       const RankRunner& runner) override {
    watched_.audit.after_statement(statement, failure, runner);
  }

 private:
  Watched& watched_;
};

EndingFailure ending_failure(const SimulationResult& result, const Experiment& experiment) {
  const int rank = result.first_failed_rank;
  const RankFailure& failure = *result.ranks[static_cast<size_t>(rank)].failure;
  const Program& program = experiment.rank_programs[static_cast<size_t>(rank)];
  return {.kind = failure.kind,
          .text = failure.exception + ": " + failure.text,
          .rank = rank,
          .statement = failure.statement,
          .statement_text = program[failure.statement].text,
          .path = failure.path,
          .params = failure.params};
}

std::vector<std::string> grave_kinds(const Outcome& outcome) {
  std::vector<SilentFault> faults = outcome.silent_faults();
  std::erase_if(faults, [](const SilentFault& fault) { return fault.consequence == Consequence::kHarmless; });
  return kinds_of(faults);
}

}  // namespace

std::string_view name(End end) { return kEnds[static_cast<size_t>(end)]; }

std::vector<SilentFault> Outcome::silent_faults() const {
  std::vector<SilentFault> faults;
  for (const RankAudit& audit : audits) faults.insert(faults.end(), audit.faults.begin(), audit.faults.end());
  std::ranges::stable_sort(faults, std::greater(), &SilentFault::consequence);
  return faults;
}

std::vector<std::string> Outcome::silent_kinds() const { return kinds_of(silent_faults()); }

bool Outcome::good() const {
  const std::vector<SilentFault> faults = silent_faults();
  return end == End::kCompletes && (faults.empty() || faults.front().consequence == Consequence::kHarmless);
}

bool end_alike(const Outcome& a, const Outcome& b) {
  if (a.end != b.end || grave_kinds(a) != grave_kinds(b)) return false;
  if (!a.failure || !b.failure) return a.failure.has_value() == b.failure.has_value();
  return a.failure->kind == b.failure->kind && a.failure->rank == b.failure->rank &&
         a.failure->statement == b.failure->statement;
}

std::string cell_word(const Outcome& outcome) {
  if (outcome.failure) return std::string(name(outcome.failure->kind));
  if (outcome.end != End::kCompletes) return std::string(name(outcome.end));
  return outcome.good() ? "ok" : std::string(name(outcome.silent_faults().front().kind));
}

std::string cell_code(const Outcome& outcome) {
  if (outcome.failure) return std::string(code(outcome.failure->kind));
  if (outcome.end == End::kLacking) return "-";
  if (outcome.end == End::kWrongData) return "DATA";
  if (outcome.good()) return "ok";
  return std::string(kFaultCodes[static_cast<size_t>(outcome.silent_faults().front().kind)]);
}

Outcome outcome_of(const Experiment& experiment, const Release& release, const OutcomeOptions& options) {
  if (!options.runs_what_lacks) {
    if (const auto missing = first_missing(experiment, release))
      return {.end = End::kLacking, .lacking = missing->message(release)};
  }
  const Behaviour behaviour = options.behaviour ? *options.behaviour : behaviour_of(release);
  std::deque<Watched> watched;
  SimulationOptions run{
      .release = release, .set_order_seed = options.seed, .watch = {}, .behaviour = behaviour};
  if (options.audited) {
    run.watch = [&](int rank) {
      watched.push_back({.rank = rank, .audit = Audit(experiment.settings, behaviour)});
      return std::make_unique<Watcher>(watched.back());
    };
  }
  Outcome outcome = end_of(experiment, simulate(experiment, run));
  for (Watched& one : watched) {
    if (one.rank == 0) outcome.printed = std::move(one.printed);
    outcome.audits.push_back({one.rank, one.audit.usage(), one.audit.faults()});
  }
  return outcome;
}

Outcome end_of(const Experiment& experiment, const SimulationResult& result) {
  Outcome outcome{.wrong_data = result.corruptions};
  if (result.failed()) {
    outcome.failure = ending_failure(result, experiment);
    outcome.end = outcome.failure->kind == FailureKind::kHang ? End::kHangs : End::kFails;
  } else if (!outcome.wrong_data.empty()) {
    outcome.end = End::kWrongData;
  }
  return outcome;
}

std::vector<ReleaseOutcome> outcomes_on(const Experiment& experiment, std::span<const Release> releases,
                                        const OutcomeOptions& options) {
  std::vector<ReleaseOutcome> outcomes;
  std::optional<size_t> changes_simulated;
  Outcome last;
  for (const Release& release : releases) {
    if (!options.runs_what_lacks && first_missing(experiment, release)) {
      outcomes.push_back({release, outcome_of(experiment, release, options)});
      continue;
    }
    const size_t changes = changes_until(release).size();
    if (changes != changes_simulated) last = outcome_of(experiment, release, options);
    changes_simulated = changes;
    outcomes.push_back({release, last});
  }
  return outcomes;
}

}  // namespace zero3::sim
