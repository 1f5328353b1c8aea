#include "sim/report/run_report.h"

#include <algorithm>
#include <list>

#include "sim/release_features.h"

namespace zero3::sim {
namespace {

AlikeReleases compare_releases(const Experiment& experiment, const SimulationResult& result, uint64_t seed) {
  AlikeReleases alike;
  const auto failure_of = [](const SimulationResult& run) -> const RankFailure* {
    if (!run.failed()) return nullptr;
    return &*run.ranks[static_cast<size_t>(run.first_failed_rank)].failure;
  };
  const RankFailure* own = failure_of(result);
  SimulationResult other;
  size_t changes_simulated = 0;  // a release that changed nothing does what the one before it did
  for (const Release& release : known_releases()) {
    if (first_missing(experiment, release)) {
      alike.lacking.push_back(release);
      continue;
    }
    const size_t changes = changes_until(release).size();
    if (changes != changes_simulated) other = simulate(experiment, {release, seed, {}});
    changes_simulated = changes;
    const RankFailure* failure = failure_of(other);
    if (failure == nullptr) {
      alike.completes.push_back(release);
    } else if (own != nullptr && failure->kind == own->kind && failure->statement == own->statement) {
      alike.alike.push_back(release);
    } else {
      alike.otherwise[std::string(name(failure->kind))].push_back(release);
    }
  }
  return alike;
}

}  // namespace

const Recording& RunReport::recording_of(int rank) const {
  const auto found = std::ranges::find(recordings, rank, &Recording::rank);
  return found == recordings.end() ? recordings.front() : *found;
}

RunReport make_report(const Experiment& experiment, const RunRequest& request) {
  RunReport report;
  report.scenario = request.scenario;
  report.title = request.title;
  report.release = request.release;
  report.ranks = static_cast<int>(experiment.rank_programs.size());
  report.seed = request.seed;
  report.reproduce = request.reproduce;
  const Behaviour behaviour = behaviour_of(request.release);
  std::list<Recording> recordings;
  report.result = simulate(
      experiment, {request.release, request.seed, [&](int rank) {
                     recordings.push_back(
                         {.rank = rank, .gathers_singly = behaviour.coordinator == Coordinator::kPrefetch});
                     return std::make_unique<Recorder>(recordings.back(), behaviour);
                   }});
  report.recordings.assign(recordings.begin(), recordings.end());
  for (const Program& program : experiment.rank_programs) {
    auto& texts = report.statements.emplace_back();
    for (const Statement& statement : program) texts.push_back(statement.text);
  }
  report.releases = compare_releases(experiment, report.result, request.seed);
  return report;
}

}  // namespace zero3::sim
