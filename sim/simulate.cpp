#include "sim/simulate.h"

#include <algorithm>

#include "sim/rank_matching.h"

namespace zero3::sim {
namespace {

// Runs the class's program as `rank` does.
void run_as(const Experiment& experiment, RankClass& rank_class, int rank, const SimulationOptions& options,
            RankWatcher* watcher) {
  const Behaviour behaviour = options.behaviour ? *options.behaviour : behaviour_of(options.release);
  SimCommunicator communicator(rank, static_cast<int>(experiment.rank_programs.size()), behaviour,
                               rank_class.divergence);
  rank_class.run = run_rank(experiment, behaviour, communicator, options.set_order_seed, watcher);
  rank_class.run.result.like_rank = rank_class.first();
  rank_class.stale = false;
}

// Runs classes that differ until each knows what the others do to it.
void match(const Experiment& experiment, std::vector<RankClass>& classes, const SimulationOptions& options,
           SimulationResult& result) {
  for (;;) {
    for (RankClass& one : classes) {
      if (one.stale) run_as(experiment, one, one.first(), options, nullptr);
    }
    if (part(classes)) continue;
    if (classes.size() == 1) return;
    RankMatching matching(classes);
    if (!matching.advance()) continue;
    matching.conclude(result);
    matching.block();
    return;
  }
}

// A text that names the rank which raises it is each rank's own.
void add_ranks(const Experiment& experiment, RankClass& rank_class, const SimulationOptions& options,
               SimulationResult& result) {
  const bool own_text =
      rank_class.run.result.failure && rank_class.run.result.failure->kind == FailureKind::kDisagreement;
  const RankResult of_first = rank_class.run.result;
  for (const int rank : rank_class.ranks) {
    if (own_text && rank != rank_class.first()) run_as(experiment, rank_class, rank, options, nullptr);
    result.ranks.push_back(own_text ? rank_class.run.result : of_first);
    result.ranks.back().rank = rank;
  }
  rank_class.run.result = of_first;
}

}  // namespace

SimulationResult simulate(const Experiment& experiment, const SimulationOptions& options) {
  std::vector<RankClass> classes = classify(experiment);
  SimulationResult result;
  if (experiment.rank_programs.size() > 1) match(experiment, classes, options, result);
  for (RankClass& one : classes) {
    const std::unique_ptr<RankWatcher> watcher = options.watch ? options.watch(one.first()) : nullptr;
    if (watcher || one.stale) run_as(experiment, one, one.first(), options, watcher.get());
    add_ranks(experiment, one, options, result);
  }
  std::ranges::sort(result.ranks, {}, &RankResult::rank);
  result.first_failed_rank = first_failed(classes);
  return result;
}

}  // namespace zero3::sim
