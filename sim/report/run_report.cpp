#include "sim/report/run_report.h"

#include <algorithm>
#include <list>
#include <memory>

namespace zero3::sim {
namespace {

AlikeReleases compare_releases(const ReleaseSweep& sweep, const RankFailure* own) {
  AlikeReleases alike;
  for (const ReleaseOutcome& one : sweep) {
    const std::optional<EndingFailure>& failure = one.outcome.failure;
    if (one.outcome.end == End::kLacking) {
      alike.lacking.push_back(one.release);
    } else if (!failure) {
      alike.completes.push_back(one.release);
    } else if (own != nullptr && failure->kind == own->kind && failure->statement == own->statement) {
      alike.alike.push_back(one.release);
    } else {
      alike.otherwise[std::string(name(failure->kind))].push_back(one.release);
    }
  }
  return alike;
}

// Tells two watchers of the same run.
class Both final : public RankWatcher {
 public:
  Both(std::unique_ptr<RankWatcher> first, RankWatcher& second) : first_(std::move(first)), second_(second) {}

  void on_event(const Event& event) override {
    first_->on_event(event);
    second_.on_event(event);
  }
  void after_statement(const Statement& statement, const Failure* failure,
                       const RankRunner& runner) override {
    first_->after_statement(statement, failure, runner);
    second_.after_statement(statement, failure, runner);
  }

 private:
  std::unique_ptr<RankWatcher> first_;
  RankWatcher& second_;
};

}  // namespace

const Recording& RunReport::recording_of(int rank) const {
  const int watched = result.ranks[static_cast<size_t>(rank)].like_rank;
  const auto found = std::ranges::find(recordings, watched, &Recording::rank);
  return found == recordings.end() ? recordings.front() : *found;
}

std::vector<Release> RunReport::failing_releases() const {
  std::vector<Release> failing = releases.alike;
  for (const auto& [kind, list] : releases.otherwise) failing.insert(failing.end(), list.begin(), list.end());
  std::ranges::sort(failing);
  return failing;
}

ReleaseSweep sweep_releases(const Experiment& experiment, uint64_t seed) {
  return outcomes_on(experiment, known_releases(), {.seed = seed, .audited = false});
}

std::vector<std::vector<std::string>> statement_texts(const std::vector<Program>& programs) {
  std::vector<std::vector<std::string>> texts;
  for (const Program& program : programs) {
    texts.emplace_back();
    for (const Statement& statement : program) texts.back().push_back(statement.text);
  }
  return texts;
}

RunReport make_report(const Experiment& experiment, const RunRequest& request, const ReleaseSweep& sweep) {
  RunReport report;
  report.scenario = request.scenario;
  report.title = request.title;
  report.release = request.release;
  report.ranks = static_cast<int>(experiment.rank_programs.size());
  report.seed = request.seed;
  report.reproduce = request.reproduce;
  const Behaviour behaviour = behaviour_of(request.release);
  const bool gathers_singly = behaviour.coordinator == Coordinator::kPrefetch;
  std::list<Recording> recordings;
  std::list<Audit> audits;
  report.result =
      simulate(experiment, {request.release, request.seed, [&](int rank) {
                              recordings.push_back({.rank = rank, .gathers_singly = gathers_singly});
                              audits.emplace_back(experiment.settings, behaviour);
                              return std::make_unique<Both>(
                                  std::make_unique<Recorder>(recordings.back(), behaviour), audits.back());
                            }});
  report.recordings.assign(recordings.begin(), recordings.end());
  auto audit = audits.begin();
  for (const Recording& recording : recordings) {
    report.audits.push_back({recording.rank, audit->usage(), audit->faults()});
    ++audit;
  }
  report.statements = statement_texts(experiment.rank_programs);
  report.parting = find_parting(experiment);
  report.releases = compare_releases(sweep, report.failure());
  return report;
}

}  // namespace zero3::sim
