#include "sim/watched_run.h"

#include <memory>

#include "sim/unowned_watcher.h"

namespace zero3::sim {

RecordingAuditor::RecordingAuditor(int rank, const Settings& settings, const Behaviour& behaviour)
    : recording_{.rank = rank, .gathers_singly = behaviour.coordinator == Coordinator::kPrefetch},
      recorder_(recording_, behaviour),
      audit_(settings, behaviour) {}

void RecordingAuditor::on_event(const Event& event) {
  recorder_.on_event(event);
  audit_.on_event(event);
}

void RecordingAuditor::after_statement(const Statement& statement, const Failure* failure,
                                       const RankRunner& runner) {
  recorder_.after_statement(statement, failure, runner);
  audit_.after_statement(statement, failure, runner);
}

Outcome outcome_in(const Experiment& experiment, const WatchedRun& run) {
  Outcome outcome = end_of(experiment, run.result);
  for (const RecordedEvent& event : run.recordings.front().events)
    if (event.kind == EventKind::kPrint) outcome.printed.push_back(event.text);
  outcome.audits = run.audits;
  return outcome;
}

WatchedRun simulate_watched(const Experiment& experiment, const Release& release, uint64_t seed) {
  const Behaviour behaviour = behaviour_of(release);
  std::vector<std::unique_ptr<RecordingAuditor>> watchers;
  WatchedRun run;
  run.result = simulate(experiment, {release, seed, [&](int rank) {
                                       watchers.push_back(std::make_unique<RecordingAuditor>(
                                           rank, experiment.settings, behaviour));
                                       return std::make_unique<UnownedWatcher>(*watchers.back());
                                     }});
  for (const auto& watcher : watchers) {
    run.recordings.push_back(watcher->recording());
    run.audits.push_back(watcher->audit());
  }
  return run;
}

}  // namespace zero3::sim
