#include "sim/simulate.h"

#include <algorithm>

#include <fmt/format.h>

namespace zero3::sim {
namespace {

// Ranks with the same program do the same: one of them runs.
struct RankClass {
  std::vector<int> ranks;
  std::optional<Divergence> divergence;
  RankResult result;
  bool stale = true;

  int first() const { return ranks.front(); }
};

RankFailure copy_out(const Failure& failure, size_t statement) {
  RankFailure copy{failure.kind, failure.exception, failure.text, failure.path, {}, statement};
  for (const Param* param : failure.params) {
    copy.params.push_back({param->ds_id, param->name, param->ds_status, param->ds_numel});
  }
  return copy;
}

RankResult run_rank(const Experiment& experiment, int rank, const SimulationOptions& options,
                    const std::optional<Divergence>& divergence, RankWatcher* watcher) {
  const Behaviour behaviour = options.behaviour ? *options.behaviour : behaviour_of(options.release);
  SimCommunicator communicator(rank, static_cast<int>(experiment.rank_programs.size()), divergence);
  RankRunner runner(experiment, behaviour, communicator, watcher, options.set_order_seed);
  RankResult result{.rank = rank, .failure = std::nullopt, .collectives = {}};
  const Program& program = experiment.rank_programs[static_cast<size_t>(rank)];
  for (size_t i = 0; i < program.size() && !result.failure; ++i) {
    communicator.begin_statement(i);
    const Raised raised = runner.run(program[i]);
    if (watcher != nullptr) watcher->after_statement(program[i], raised.get(), runner);
    if (raised) result.failure = copy_out(*raised, i);
  }
  result.collectives = communicator.sequence();
  return result;
}

std::vector<RankClass> classify(const Experiment& experiment) {
  std::vector<RankClass> classes;
  for (size_t rank = 0; rank < experiment.rank_programs.size(); ++rank) {
    const auto same = std::ranges::find_if(classes, [&](const RankClass& other) {
      return experiment.rank_programs[static_cast<size_t>(other.first())] == experiment.rank_programs[rank];
    });
    if (same != classes.end()) {
      same->ranks.push_back(static_cast<int>(rank));
    } else {
      classes.push_back({.ranks = {static_cast<int>(rank)}, .divergence = {}, .result = {}});
    }
  }
  return classes;
}

const Collective* at(const RankClass& rank_class, size_t index) {
  const auto& sequence = rank_class.result.collectives;
  return index < sequence.size() ? &sequence[index] : nullptr;
}

bool same_collective(const Collective& a, const Collective& b) {
  return a.kind == b.kind && a.ds_ids == b.ds_ids && a.ints == b.ints && a.source_rank == b.source_rank;
}

bool same_shape(const Collective& a, const Collective& b) {
  return a.kind == b.kind && a.shard_numel == b.shard_numel && a.ints.size() == b.ints.size() &&
         a.source_rank == b.source_rank;
}

std::string where(const RankClass& rank_class, size_t index) {
  const Collective* collective = at(rank_class, index);
  if (collective != nullptr) return "is in " + collective->text();
  return rank_class.result.failure ? "failed with " + rank_class.result.failure->exception
                                   : "has ended its program";
}

// Everyone who reached the collective waits there for ever.
void block(std::vector<RankClass>& classes, size_t index) {
  for (RankClass& waiting : classes) {
    const Collective* own = at(waiting, index);
    if (own == nullptr || waiting.divergence) continue;
    std::string text = fmt::format("waits in {}", own->text());
    for (const RankClass& other : classes) {
      if (&other == &waiting) continue;
      const Collective* theirs = at(other, index);
      if (theirs != nullptr && same_collective(*own, *theirs)) continue;
      text += fmt::format("; rank {} {}", other.first(), where(other, index));
    }
    waiting.divergence = Divergence{index, std::nullopt, text};
    waiting.stale = true;
  }
}

// A trace check whose lists differ: the ranks that disagree with rank 0 raise there, the others go on.
void disagree(std::vector<RankClass>& classes, size_t index) {
  const std::vector<int64_t> of_rank0 = at(classes.front(), index)->ints;
  for (RankClass& other : classes) {
    if (at(other, index)->ints == of_rank0) continue;
    other.divergence = Divergence{index, of_rank0, ""};
    other.stale = true;
  }
}

// Finds the first collective on which classes part that no divergence explains yet; false: none left.
bool match(std::vector<RankClass>& classes, std::vector<std::string>& corruptions) {
  corruptions.clear();
  size_t longest = 0;
  for (const RankClass& one : classes) longest = std::max(longest, one.result.collectives.size());
  for (size_t index = 0; index < longest; ++index) {
    const Collective* first = at(classes.front(), index);
    const bool everyone =
        std::ranges::all_of(classes, [&](const RankClass& one) { return at(one, index) != nullptr; });
    const auto all = [&](auto same) {
      return std::ranges::all_of(classes,
                                 [&](const RankClass& one) { return same(*first, *at(one, index)); });
    };
    if (everyone && all(same_collective)) continue;
    const bool known = std::ranges::any_of(
        classes, [&](const RankClass& one) { return one.divergence && one.divergence->collective == index; });
    if (everyone && all(same_shape)) {
      if (first->kind != CollectiveKind::kBroadcastInts) {
        corruptions.push_back(fmt::format("collective {}: rank 0 {}, rank {} {}", index,
                                          where(classes.front(), index), classes.back().first(),
                                          where(classes.back(), index)));
        continue;
      }
      if (known) continue;
      disagree(classes, index);
      return true;
    }
    if (known) return false;
    block(classes, index);
    return true;
  }
  return false;
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

}  // namespace

SimulationResult simulate(const Experiment& experiment, const SimulationOptions& options) {
  std::vector<RankClass> classes = classify(experiment);
  SimulationResult result;
  if (classes.size() > 1) {
    do {
      for (RankClass& one : classes) {
        if (one.stale) one.result = run_rank(experiment, one.first(), options, one.divergence, nullptr);
        one.stale = false;
      }
    } while (match(classes, result.corruptions));
  }
  for (RankClass& one : classes) {
    const std::unique_ptr<RankWatcher> watcher = options.watch ? options.watch(one.first()) : nullptr;
    if (watcher || classes.size() == 1)
      one.result = run_rank(experiment, one.first(), options, one.divergence, watcher.get());
    for (const int rank : one.ranks) {
      result.ranks.push_back(one.result);
      result.ranks.back().rank = rank;
    }
  }
  std::ranges::sort(result.ranks, {}, &RankResult::rank);
  result.first_failed_rank = first_failed(classes);
  return result;
}

}  // namespace zero3::sim
