#include "sim/report/run_report.h"

#include <algorithm>
#include <utility>

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

RunReport make_report(const Experiment& experiment, const RunRequest& request, const ReleaseSweep& sweep,
                      WatchedRun run) {
  RunReport report;
  report.scenario = request.scenario;
  report.title = request.title;
  report.release = request.release;
  report.ranks = static_cast<int>(experiment.rank_programs.size());
  report.seed = request.seed;
  report.reproduce = request.reproduce;
  report.result = std::move(run.result);
  report.recordings = std::move(run.recordings);
  report.audits = std::move(run.audits);
  report.tensors = std::move(run.tensors);
  report.devices = std::move(run.devices);
  report.statements = statement_texts(experiment.rank_programs);
  report.parting = find_parting(experiment);
  report.releases = compare_releases(sweep, report.failure());
  return report;
}

RunReport make_report(const Experiment& experiment, const RunRequest& request, const ReleaseSweep& sweep) {
  return make_report(experiment, request, sweep, simulate_watched(experiment, request.release, request.seed));
}

}  // namespace zero3::sim
