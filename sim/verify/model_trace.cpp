#include "sim/verify/model_trace.h"

#include <algorithm>
#include <map>
#include <memory>

#include "sim/report/recording.h"
#include "sim/report/words.h"

namespace zero3::sim {
namespace {

// Whether a real run of that rank can show it: DeepSpeed prints on rank 0 alone.
bool is_seen(EventKind kind, int rank) {
  if (kind == EventKind::kPrint) return rank == 0;
  return kind != EventKind::kRecord && kind != EventKind::kPrefetch && kind != EventKind::kPrefetchEnd &&
         kind != EventKind::kKeep;
}

TraceEvent event_of(const Recording& recording, const RecordedEvent& recorded) {
  TraceEvent event{.event = std::string(name(recorded.kind)),
                   .module = recorded.module,
                   .module_id = recorded.module_id,
                   .ds_ids = recorded.ds_ids,
                   .step = recorded.step,
                   .reason = std::string(name(recorded.reason)),
                   .text = recorded.text};
  for (const int id : recorded.ds_ids) event.params.push_back(recording.param_name(id));
  if (recorded.kind == EventKind::kFetch) event.pass = recorded.forward ? "forward" : "backward";
  if (recorded.kind == EventKind::kInvalidate) {
    event.expected_module_id = recorded.value;
    event.trace_length = recorded.limit;
  }
  return event;
}

bool sizes_differ(const SimulationResult& result, int rank) {
  return std::ranges::any_of(result.waits, [&](const Waiting& waiting) {
    return waiting.rank == rank && waiting.obstacle == Obstacle::kOtherSize;
  });
}

RankTrace rank_trace(const Recording& recording, const RankResult& result, bool sizes_differ) {
  RankTrace rank{.rank = result.rank};
  for (size_t i = 0; i < recording.statements.size(); ++i)
    rank.statements.push_back({.text = recording.statements[i], .statuses = recording.statuses[i]});
  for (const RecordedEvent& event : recording.events) {
    if (is_seen(event.kind, result.rank))
      rank.statements[event.statement].events.push_back(event_of(recording, event));
  }
  if (!result.failure) return rank;
  const RankFailure& failure = *result.failure;
  if (failure.kind == FailureKind::kHang) {
    rank.stop = TraceStop{TraceStop::Kind::kTimeout, failure.statement, failure.text, sizes_differ};
    rank.statements[failure.statement].statuses.reset();
  } else {
    rank.statements[failure.statement].failure = TraceFailure{failure.exception, failure.text, failure.path};
  }
  return rank;
}

ModelRun run(const Experiment& experiment, const std::string& name, const SimulationOptions& options) {
  std::map<int, Recording> recordings;
  const Behaviour behaviour = options.behaviour ? *options.behaviour : behaviour_of(options.release);
  SimulationOptions watched = options;
  watched.watch = [&](int rank) {
    Recording& recording = recordings[rank] = Recording{.rank = rank};
    return std::make_unique<Recorder>(recording, behaviour);
  };
  ModelRun done{.trace = {}, .result = simulate(experiment, watched)};
  done.trace.scenario = name;
  done.trace.deepspeed = options.release.text();
  done.trace.ranks = static_cast<int>(experiment.rank_programs.size());
  done.trace.seed = options.set_order_seed;
  done.trace.whole = true;
  for (size_t rank = 0; rank < experiment.rank_programs.size(); ++rank) {
    done.trace.by_rank.push_back(rank_trace(recordings.at(done.result.ranks[rank].like_rank),
                                            done.result.ranks[rank],
                                            sizes_differ(done.result, static_cast<int>(rank))));
  }
  return done;
}

}  // namespace

ModelRun model_run(const Experiment& experiment, const std::string& name, const Release& release,
                   uint64_t seed) {
  return run(experiment, name, {release, seed, {}, std::nullopt});
}

ModelRun model_run(const Experiment& experiment, const std::string& name, const Release& release,
                   const Behaviour& behaviour, uint64_t seed) {
  return run(experiment, name, {release, seed, {}, behaviour});
}

}  // namespace zero3::sim
