#include "sim/backends/rank_exchange.h"

#include <algorithm>

namespace zero3::sim {

void RankExchange::issue(int rank, const Collective& collective, MovedData& data) {
  Contribution own{.collective = collective, .data = &data};
  if (moves_data(collective)) own.buffers = data.begin(collective);
  const std::lock_guard lock(mutex_);
  Slot& slot = slots_[key(collective)];
  slot.by_rank.emplace(rank, std::move(own));
  if (!all_alike(slot)) return;
  exchange(slot);
  slot.complete = true;
  waiting_ -= slot.waiting;
  slot.waiting = 0;
  changed_.notify_all();
}

bool RankExchange::all_alike(const Slot& slot) const {
  if (slot.by_rank.size() != world_size_) return false;
  const Collective& first = slot.by_rank.begin()->second.collective;
  return std::ranges::all_of(slot.by_rank,
                             [&](const auto& entry) { return alike(entry.second.collective, first); });
}

void RankExchange::exchange(Slot& slot) const {
  const Collective& collective = slot.by_rank.begin()->second.collective;
  std::vector<std::vector<std::byte>> all_reduced;  // by rank: each is overwritten by the sum
  if (collective.kind == CollectiveKind::kAllReduce) {
    for (auto& [rank, own] : slot.by_rank)
      all_reduced.emplace_back(own.buffers.receive.begin(), own.buffers.receive.end());
  }
  for (auto& [to_rank, to] : slot.by_rank) {
    std::vector<std::byte> of_all;
    for (auto& [from_rank, from] : slot.by_rank) {
      const auto at = static_cast<size_t>(from_rank);
      if (collective.kind == CollectiveKind::kAllGather && from_rank != to_rank) {
        const size_t part = to.buffers.receive.size() / world_size_;
        std::ranges::copy(from.buffers.receive.subspan(part * at, part),
                          to.buffers.receive.subspan(part * at, part).begin());
      } else if (collective.kind == CollectiveKind::kBroadcast && from_rank == collective.source_rank) {
        if (from_rank != to_rank) std::ranges::copy(from.buffers.receive, to.buffers.receive.begin());
      } else if (collective.kind == CollectiveKind::kReduceScatter) {
        const size_t part = from.buffers.send.size() / world_size_;
        const auto piece = from.buffers.send.subspan(part * static_cast<size_t>(to_rank), part);
        of_all.insert(of_all.end(), piece.begin(), piece.end());
      } else if (collective.kind == CollectiveKind::kAllReduce) {
        const std::vector<std::byte>& own = all_reduced[at];
        of_all.insert(of_all.end(), own.begin(), own.end());
      }
    }
    if (sums(collective)) to.data->reduce(to.collective, of_all);
  }
}

bool RankExchange::wait(const Collective& collective) {
  std::unique_lock lock(mutex_);
  Slot& slot = slots_[key(collective)];
  if (slot.complete) return true;
  ++slot.waiting;
  ++waiting_;
  check_stuck();
  changed_.wait(lock, [&] { return slot.complete || stuck_; });
  return slot.complete;
}

std::vector<int64_t> RankExchange::ints_of_rank0(const Collective& collective) {
  const std::lock_guard lock(mutex_);
  return slots_[key(collective)].by_rank.at(0).collective.ints;
}

void RankExchange::leave() {
  const std::lock_guard lock(mutex_);
  ++left_;
  check_stuck();
}

void RankExchange::check_stuck() {
  if (stuck_ || waiting_ == 0 || waiting_ + left_ < world_size_) return;
  stuck_ = true;
  changed_.notify_all();
}

}  // namespace zero3::sim
