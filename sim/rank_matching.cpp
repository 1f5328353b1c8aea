#include "sim/rank_matching.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "sim/mixed_data.h"

namespace zero3::sim {

RankMatching::RankMatching(std::vector<RankClass>& classes)
    : classes_(classes), position_(classes.size(), 0), indices_(classes.size()) {
  for (size_t one = 0; one < classes.size(); ++one) {
    const std::vector<Collective>& collectives = classes[one].run.result.collectives;
    for (size_t i = 0; i < collectives.size(); ++i)
      indices_[one].at(static_cast<size_t>(collectives[i].group)).push_back(i);
  }
}

const Collective* RankMatching::waits_in(size_t of_class) const {
  const RankClass& one = classes_[of_class];
  const size_t position = position_[of_class];
  if (position == one.run.wait_points.size()) return nullptr;
  return &one.run.result.collectives[one.run.wait_points[position].collective];
}

const Collective* RankMatching::issued(size_t of_class, ProcessGroup group, size_t number) const {
  const RankClass& one = classes_[of_class];
  const size_t position = position_[of_class];
  const size_t count = position == one.run.wait_points.size() ? one.run.result.collectives.size()
                                                              : one.run.wait_points[position].issued;
  const std::vector<size_t>& indices = indices_[of_class].at(static_cast<size_t>(group));
  return number < indices.size() && indices[number] < count ? &one.run.result.collectives[indices[number]]
                                                            : nullptr;
}

Obstacle RankMatching::obstacle(size_t own, size_t other) const {
  const Collective& collective = *waits_in(own);
  if (own == other) return Obstacle::kNone;
  const Collective* theirs = issued(other, collective.group, collective.number);
  if (theirs == nullptr) return Obstacle::kAbsent;
  if (theirs->kind != collective.kind || theirs->source_rank != collective.source_rank)
    return Obstacle::kOtherOperation;
  return alike(*theirs, collective) ? Obstacle::kNone : Obstacle::kOtherSize;
}

bool RankMatching::passes(size_t own) {
  if (waits_in(own) == nullptr) return false;
  for (size_t other = 0; other < classes_.size(); ++other) {
    if (obstacle(own, other) != Obstacle::kNone) return false;
  }
  return true;
}

// A trace check: those that disagree with rank 0 raise there, the others go on.
bool RankMatching::receives_other_ints(size_t own, const Collective& collective) {
  RankClass& one = classes_[own];
  if (collective.kind != CollectiveKind::kBroadcastInts || own == 0) return false;
  const Collective& of_rank0 = *issued(0, collective.group, collective.number);
  const bool knows = one.divergence && one.divergence->wait_point == position_[own];
  if (knows || of_rank0.ints == collective.ints) return false;
  one.divergence = Divergence{position_[own], of_rank0.ints, ""};
  one.stale = true;
  return true;
}

bool RankMatching::advance() {
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t own = 0; own < classes_.size(); ++own) {
      while (passes(own)) {
        if (receives_other_ints(own, *waits_in(own))) return false;
        ++position_[own];
        moved = true;
      }
    }
  }
  return true;
}

std::string RankMatching::where(size_t of_class, const Collective& meant) const {
  if (const Collective* there = issued(of_class, meant.group, meant.number)) return "is in " + there->text();
  if (const Collective* stuck = waits_in(of_class)) return "waits in " + stuck->text();
  const std::optional<RankFailure>& failure = classes_[of_class].run.result.failure;
  return failure ? "failed with " + failure->exception : "has ended its program";
}

void RankMatching::block() {
  for (size_t own = 0; own < classes_.size(); ++own) {
    const Collective* collective = waits_in(own);
    if (collective == nullptr) continue;
    std::string text = fmt::format("waits in {}", collective->text());
    for (size_t other = 0; other < classes_.size(); ++other) {
      if (other == own || obstacle(own, other) == Obstacle::kNone) continue;
      text += fmt::format("; rank {} {}", classes_[other].first(), where(other, *collective));
    }
    classes_[own].divergence = Divergence{position_[own], std::nullopt, text};
    classes_[own].stale = true;
  }
}

std::vector<Waiting> RankMatching::waits() const {
  std::vector<Waiting> all;
  for (size_t own = 0; own < classes_.size(); ++own) {
    const Collective* collective = waits_in(own);
    if (collective == nullptr) continue;
    Waiting waiting{.rank = 0, .collective = *collective, .for_ranks = {}};
    for (size_t other = 0; other < classes_.size(); ++other) {
      if (other == own) continue;
      const Obstacle found = obstacle(own, other);
      if (found == Obstacle::kNone) continue;
      waiting.obstacle = std::max(waiting.obstacle, found);
      const auto& ranks = classes_[other].ranks;
      waiting.for_ranks.insert(waiting.for_ranks.end(), ranks.begin(), ranks.end());
      if (found != Obstacle::kOtherSize) continue;
      const Collective& theirs = *issued(other, collective->group, collective->number);
      waiting.has_least |=
          theirs.numel() > collective->numel() && receives(*collective, classes_[own].first());
    }
    std::ranges::sort(waiting.for_ranks);
    for (const int rank : classes_[own].ranks) {
      waiting.rank = rank;
      all.push_back(waiting);
    }
  }
  std::ranges::sort(all, {}, &Waiting::rank);
  return all;
}

Disagreement RankMatching::sides(ProcessGroup group, size_t number) const {
  Disagreement result{.group = group, .number = number, .sides = {}};
  const Collective* meant = nullptr;
  for (size_t one = 0; one < classes_.size() && meant == nullptr; ++one) meant = issued(one, group, number);
  for (size_t one = 0; one < classes_.size(); ++one) {
    const Collective* own = issued(one, group, number);
    Side side{classes_[one].ranks, own == nullptr ? std::nullopt : std::optional(*own),
              own == nullptr && meant != nullptr ? where(one, *meant) : ""};
    const auto like = std::ranges::find_if(result.sides, [&](const Side& other) {
      if (own == nullptr || !other.collective) return own == nullptr && other.instead == side.instead;
      return same(*own, *other.collective);
    });
    if (like == result.sides.end()) {
      result.sides.push_back(std::move(side));
    } else {
      like->ranks.insert(like->ranks.end(), side.ranks.begin(), side.ranks.end());
      std::ranges::sort(like->ranks);
    }
  }
  return result;
}

std::optional<Disagreement> RankMatching::first_disagreement() const {
  std::optional<Disagreement> first;
  std::tuple<size_t, size_t> first_place;
  for (const ProcessGroup group : {ProcessGroup::kWorld, ProcessGroup::kDataParallel}) {
    for (size_t number = 0;; ++number) {
      Disagreement here = sides(group, number);
      if (here.sides.size() < 2) {
        if (!here.sides.front().collective) break;
        continue;
      }
      std::tuple<size_t, size_t> place{SIZE_MAX, SIZE_MAX};
      for (size_t one = 0; one < classes_.size(); ++one) {
        const Collective* own = issued(one, group, number);
        if (own == nullptr) continue;
        const auto index = static_cast<size_t>(own - classes_[one].run.result.collectives.data());
        place = std::min(place, std::tuple(own->statement, index));
      }
      if (!first || place < first_place) {
        first = std::move(here);
        first_place = place;
      }
      break;
    }
  }
  return first;
}

void RankMatching::conclude(SimulationResult& result) const {
  result.first_disagreement = first_disagreement();
  result.waits = waits();
  result.mix_ups = mix_ups();
  for (const MixUp& mix_up : result.mix_ups) result.corruptions.push_back(text_of(mix_up));
}

std::vector<MixUp> RankMatching::mix_ups() const {
  std::vector<MixUp> all;
  for (const Collective& collective : classes_.front().run.result.collectives) {
    Disagreement here = sides(collective.group, collective.number);
    const bool exchanged = std::ranges::all_of(here.sides, [&](const Side& side) {
      return side.collective && alike(*side.collective, *here.sides.front().collective);
    });
    if (here.sides.size() < 2 || !exchanged) continue;
    std::vector<MixedPiece> pieces = mixed_pieces(here.sides);
    if (!pieces.empty()) all.push_back({std::move(here), std::move(pieces)});
  }
  return all;
}

}  // namespace zero3::sim
