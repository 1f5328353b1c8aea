#include "sim/backends/real_ranks.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include <fmt/format.h>

#include "sim/backends/backend.h"
#include "sim/rank_classes.h"
#include "sim/rank_matching.h"

namespace zero3::sim {
namespace {

// What rank 0 alone prints is left out.
std::vector<RecordedEvent> events_of_any_rank(const Recording& recording) {
  std::vector<RecordedEvent> events;
  std::ranges::copy_if(recording.events, std::back_inserter(events),
                       [](const RecordedEvent& event) { return event.kind != EventKind::kPrint; });
  return events;
}

bool same_events(const Recording& a, const Recording& b) {
  return a.statements == b.statements && a.statuses == b.statuses &&
         events_of_any_rank(a) == events_of_any_rank(b);
}

void check_alike(const RankReport& first, const RankReport& other) {
  const bool same_collectives =
      std::ranges::equal(first.run.result.collectives, other.run.result.collectives, same);
  if (same_collectives && same_events(first.recording, other.recording)) return;
  throw BackendUnavailable(fmt::format("rank {} does not do what rank {} does, which has the same program",
                                       other.run.result.rank, first.run.result.rank));
}

std::vector<RankClass> classes_of(const Experiment& experiment, const std::vector<RankReport>& reports) {
  std::vector<RankClass> classes = classify(experiment);
  const auto take_runs = [&] {
    for (RankClass& one : classes) one.run = reports[static_cast<size_t>(one.first())].run;
  };
  take_runs();
  if (part(classes)) take_runs();
  for (const RankClass& one : classes) {
    for (const int rank : one.ranks)
      check_alike(reports[static_cast<size_t>(one.first())], reports[static_cast<size_t>(rank)]);
  }
  return classes;
}

// A class is told where the ints of rank 0 are not its own, one after the other.
void match(std::vector<RankClass>& classes, SimulationResult& result) {
  while (!RankMatching(classes).advance()) {
  }
  RankMatching matching(classes);
  matching.advance();
  matching.conclude(result);
  matching.block();
}

bool hangs(const RankRun& run) {
  return run.result.failure && run.result.failure->kind == FailureKind::kHang;
}

void complete_hangs(std::vector<RankClass>& classes) {
  for (RankClass& one : classes) {
    const bool waits_for_ever = one.divergence && !one.divergence->of_rank0;
    if (hangs(one.run) && !waits_for_ever) {
      throw BackendUnavailable(fmt::format(
          "rank {} gave up ({}), though the others did come: the machine is too slow for this --timeout",
          one.first(), one.run.result.failure->text));
    }
    if (waits_for_ever && !hangs(one.run))
      throw BackendUnavailable(fmt::format("rank {} went on though it had to wait for ever", one.first()));
    if (waits_for_ever) one.run.result.failure->text = one.divergence->text;
  }
}

// Runs of wrong elements, each as long as it is. A gradient's elements may be wrong by what several ranks put in.
std::vector<WrongData> merged(std::vector<WrongData> pieces) {
  std::ranges::sort(pieces, {},
                    [](const WrongData& one) { return std::tuple(one.collective, one.ds_id, one.first); });
  std::vector<WrongData> runs;
  for (const WrongData& one : pieces) {
    const bool goes_on = !runs.empty() && runs.back().collective == one.collective &&
                         runs.back().ds_id == one.ds_id && runs.back().of_ds_id == one.of_ds_id &&
                         one.first <= runs.back().end;
    if (goes_on) {
      runs.back().end = std::max(runs.back().end, one.end);
    } else {
      runs.push_back(one);
    }
  }
  return runs;
}

// Elements of this rank's shard that are not padding.
int64_t own_numel(const Collective& collective, int rank, int ds_id) {
  const auto place = std::ranges::find(collective.ds_ids, ds_id) - collective.ds_ids.begin();
  const auto param = static_cast<size_t>(place);
  return std::clamp<int64_t>(collective.ds_numels[param] - rank * collective.shards[param], 0,
                             collective.shards[param]);
}

void add_expected(const MixUp& mix_up, const Collective& collective, size_t index, int rank,
                  std::vector<WrongData>& expected) {
  for (const MixedPiece& piece : mix_up.pieces) {
    if (std::ranges::find(piece.ranks, rank) == piece.ranks.end()) continue;
    const int64_t end =
        mix_up.of_gradients() ? std::min(piece.end, own_numel(collective, rank, piece.ds_id)) : piece.end;
    if (piece.first >= end) continue;
    expected.push_back({index, piece.ds_id, piece.first, end, mix_up.of_gradients() ? -1 : piece.of_ds_id});
  }
}

// Those of the mix-ups that this rank has waited for.
std::vector<WrongData> expected_wrong(const RankRun& run, const std::vector<MixUp>& mix_ups) {
  std::vector<WrongData> expected;
  const size_t finished = run.wait_points.size() - (hangs(run) ? 1 : 0);
  for (size_t point = 0; point < finished; ++point) {
    const size_t index = run.wait_points[point].collective;
    const Collective& collective = run.result.collectives[index];
    for (const MixUp& mix_up : mix_ups) {
      if (mix_up.where.group == collective.group && mix_up.where.number == collective.number)
        add_expected(mix_up, collective, index, run.result.rank, expected);
    }
  }
  return merged(std::move(expected));
}

// (Values of real tensors do not say whose they are.)
void check_data(const std::vector<RankReport>& reports, const std::vector<MixUp>& mix_ups) {
  for (const RankReport& report : reports) {
    if (report.run.tensors) continue;
    if (merged(report.wrong) != expected_wrong(report.run, mix_ups))
      throw BackendUnavailable(fmt::format(
          "the data that reached rank {} is not what the ranks' collectives say", report.run.result.rank));
  }
}

}  // namespace

RankReport run_real_rank(const Experiment& experiment, const Behaviour& behaviour,
                         RankCommunicator& communicator, uint64_t seed, RankTensors* tensors) {
  RecordingAuditor watcher(communicator.rank(), experiment.settings, behaviour);
  return {.run = run_rank(experiment, behaviour, communicator, seed, &watcher, tensors),
          .recording = watcher.recording(),
          .audit = watcher.audit()};
}

WatchedRun conclude(const Experiment& experiment, std::vector<RankReport> reports) {
  std::vector<RankClass> classes = classes_of(experiment, reports);
  WatchedRun run;
  for (const RankReport& report : reports)
    if (report.device) run.devices.push_back(*report.device);
  if (classes.size() > 1) match(classes, run.result);
  complete_hangs(classes);
  check_data(reports, run.result.mix_ups);
  for (const RankClass& one : classes) {
    RankReport& first = reports[static_cast<size_t>(one.first())];
    run.recordings.push_back(std::move(first.recording));
    run.audits.push_back(std::move(first.audit));
    for (const int rank : one.ranks) {
      RankResult result = reports[static_cast<size_t>(rank)].run.result;
      result.like_rank = one.first();
      if (hangs(one.run)) result.failure->text = one.run.result.failure->text;
      run.result.ranks.push_back(std::move(result));
    }
  }
  for (RankReport& report : reports) {
    if (report.run.tensors) run.tensors.push_back(std::move(*report.run.tensors));
  }
  std::ranges::sort(run.result.ranks, {}, &RankResult::rank);
  run.result.first_failed_rank = first_failed(classes);
  return run;
}

}  // namespace zero3::sim
