#include "sim/simulate.h"

#include <algorithm>

#include "sim/mixed_data.h"
#include "sim/rank_matching.h"

namespace zero3::sim {
namespace {

RankFailure copy_out(const Failure& failure, size_t statement) {
  RankFailure copy{failure.kind, failure.exception, failure.text, failure.path, {}, statement};
  for (const Param* param : failure.params) {
    copy.params.push_back({param->ds_id, param->name, param->ds_status, param->ds_numel});
  }
  return copy;
}

// Runs the class's program as `rank` does.
void run_rank(const Experiment& experiment, RankClass& rank_class, int rank, const SimulationOptions& options,
              RankWatcher* watcher) {
  const Behaviour behaviour = options.behaviour ? *options.behaviour : behaviour_of(options.release);
  SimCommunicator communicator(rank, static_cast<int>(experiment.rank_programs.size()), behaviour,
                               rank_class.divergence);
  RankRunner runner(experiment, behaviour, communicator, watcher, options.set_order_seed);
  RankResult result{.rank = rank, .like_rank = rank_class.first()};
  const Program& program = experiment.rank_programs[static_cast<size_t>(rank)];
  for (size_t i = 0; i < program.size() && !result.failure; ++i) {
    communicator.begin_statement(i);
    const Raised raised = runner.run(program[i]);
    if (watcher != nullptr) watcher->after_statement(program[i], raised.get(), runner);
    if (raised) result.failure = copy_out(*raised, i);
  }
  result.collectives = communicator.sequence();
  rank_class.result = std::move(result);
  rank_class.wait_points = communicator.wait_points();
  rank_class.ranks_part = communicator.ranks_part();
  rank_class.stale = false;
}

// Ranks with the same program do the same, unless it comes to what is theirs alone: one of them runs.
std::vector<RankClass> classify(const Experiment& experiment) {
  const std::vector<Program>& programs = experiment.rank_programs;
  std::vector<RankClass> classes;
  for (size_t rank = 0; rank < programs.size(); ++rank) {
    const auto same = std::ranges::find_if(classes, [&](const RankClass& other) {
      return programs[static_cast<size_t>(other.first())] == programs[rank];
    });
    if (same != classes.end()) {
      same->ranks.push_back(static_cast<int>(rank));
    } else {
      classes.push_back({.ranks = {static_cast<int>(rank)}});
    }
  }
  return classes;
}

// Makes ranks that do not do the same classes of their own. False: all do.
bool part(std::vector<RankClass>& classes) {
  std::vector<RankClass> parted;
  bool changed = false;
  for (const RankClass& one : classes) {
    if (!one.ranks_part || one.ranks.size() == 1) {
      parted.push_back(one);
      continue;
    }
    changed = true;
    for (const int rank : one.ranks) parted.push_back({.ranks = {rank}});
  }
  if (changed) classes = std::move(parted);
  std::ranges::sort(classes, {}, &RankClass::first);
  return changed;
}

// Runs classes that differ until each knows what the others do to it.
void match(const Experiment& experiment, std::vector<RankClass>& classes, const SimulationOptions& options,
           SimulationResult& result) {
  for (;;) {
    for (RankClass& one : classes) {
      if (one.stale) run_rank(experiment, one, one.first(), options, nullptr);
    }
    if (part(classes)) continue;
    if (classes.size() == 1) return;
    RankMatching matching(classes);
    if (!matching.advance()) continue;
    result.first_disagreement = matching.first_disagreement();
    result.waits = matching.waits();
    result.mix_ups = matching.mix_ups();
    matching.block();
    return;
  }
}

int first_failed(const std::vector<RankClass>& classes) {
  const RankClass* first = nullptr;
  for (const RankClass& one : classes) {
    if (!one.result.failure) continue;
    const auto order = [](const RankClass& other) {
      return std::pair(other.result.failure->kind == FailureKind::kHang, other.result.collectives.size());
    };
    if (first == nullptr || order(one) < order(*first)) first = &one;
  }
  return first == nullptr ? -1 : first->first();
}

// A text that names the rank which raises it is each rank's own.
void add_ranks(const Experiment& experiment, RankClass& rank_class, const SimulationOptions& options,
               SimulationResult& result) {
  const bool own_text =
      rank_class.result.failure && rank_class.result.failure->kind == FailureKind::kDisagreement;
  const RankResult of_first = rank_class.result;
  for (const int rank : rank_class.ranks) {
    if (own_text && rank != rank_class.first()) run_rank(experiment, rank_class, rank, options, nullptr);
    result.ranks.push_back(own_text ? rank_class.result : of_first);
    result.ranks.back().rank = rank;
  }
  rank_class.result = of_first;
}

}  // namespace

SimulationResult simulate(const Experiment& experiment, const SimulationOptions& options) {
  std::vector<RankClass> classes = classify(experiment);
  SimulationResult result;
  if (experiment.rank_programs.size() > 1) match(experiment, classes, options, result);
  for (RankClass& one : classes) {
    const std::unique_ptr<RankWatcher> watcher = options.watch ? options.watch(one.first()) : nullptr;
    if (watcher || one.stale) run_rank(experiment, one, one.first(), options, watcher.get());
    add_ranks(experiment, one, options, result);
  }
  std::ranges::sort(result.ranks, {}, &RankResult::rank);
  result.first_failed_rank = first_failed(classes);
  for (const MixUp& mix_up : result.mix_ups) result.corruptions.push_back(text_of(mix_up));
  return result;
}

}  // namespace zero3::sim
