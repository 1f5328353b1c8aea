#include "sim/rank_classes.h"

#include <algorithm>
#include <utility>

namespace zero3::sim {

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

bool part(std::vector<RankClass>& classes) {
  std::vector<RankClass> parted;
  bool changed = false;
  for (const RankClass& one : classes) {
    if (!one.run.ranks_part || one.ranks.size() == 1) {
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

int first_failed(const std::vector<RankClass>& classes) {
  const RankClass* first = nullptr;
  const auto order = [](const RankClass& one) {
    return std::pair(one.run.result.failure->kind == FailureKind::kHang, one.run.result.collectives.size());
  };
  for (const RankClass& one : classes) {
    if (one.run.result.failure && (first == nullptr || order(one) < order(*first))) first = &one;
  }
  return first == nullptr ? -1 : first->first();
}

}  // namespace zero3::sim
