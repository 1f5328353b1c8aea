#include "sim/backends/marked_data.h"

#include <algorithm>
#include <cstring>

namespace zero3::sim {
namespace {

constexpr int kIndexBits = 20;
constexpr uint32_t kIndexMask = (uint32_t{1} << kIndexBits) - 1;

// 0: padding.
uint32_t word_of(int ds_id, int64_t index, int64_t ds_numel) {
  if (index >= ds_numel) return 0;
  return (static_cast<uint32_t>(ds_id + 1) << kIndexBits) | (static_cast<uint32_t>(index) & kIndexMask);
}

int ds_id_of(uint32_t word) { return static_cast<int>(word >> kIndexBits) - 1; }

}  // namespace

const std::vector<uint32_t>& MarkedData::own_shard(int ds_id, int64_t shard, int64_t ds_numel) {
  std::vector<uint32_t>& words = shards_[ds_id];
  for (auto i = static_cast<int64_t>(words.size()); i < shard; ++i)
    words.push_back(word_of(ds_id, rank_ * shard + i, ds_numel));
  return words;
}

void MarkedData::pack_own_shards(const Collective& collective, std::vector<uint32_t>& words) {
  const auto part = static_cast<size_t>(collective.shard_numel);
  words.resize(part * static_cast<size_t>(world_size_));
  auto to = words.begin() + static_cast<std::ptrdiff_t>(part * static_cast<size_t>(rank_));
  for (size_t i = 0; i < collective.ds_ids.size(); ++i) {
    const auto& shard = own_shard(collective.ds_ids[i], collective.shards[i], collective.ds_numels[i]);
    to = std::ranges::copy(shard, to).out;
  }
}

// A gradient of this rank for every owner's shard.
void MarkedData::fill_gradients(const Collective& collective, std::vector<uint32_t>& words) const {
  for (int owner = 0; owner < world_size_; ++owner) {
    for (size_t i = 0; i < collective.ds_ids.size(); ++i) {
      for (int64_t j = 0; j < collective.shards[i]; ++j)
        words.push_back(
            word_of(collective.ds_ids[i], owner * collective.shards[i] + j, collective.ds_numels[i]));
    }
  }
}

Buffers MarkedData::begin(const Collective& collective) {
  Words& words = open_[{collective.group, collective.number}];
  const auto shard = static_cast<size_t>(collective.shard_numel);
  switch (collective.kind) {
    case CollectiveKind::kAllGather: pack_own_shards(collective, words.receive); break;
    case CollectiveKind::kReduceScatter:
      fill_gradients(collective, words.send);
      words.receive.resize(shard);
      break;
    case CollectiveKind::kBroadcast:
      words.receive.resize(static_cast<size_t>(collective.numel()));
      for (size_t i = 0; i < words.receive.size() && rank_ == collective.source_rank; ++i)
        words.receive[i] =
            word_of(collective.ds_ids.front(), static_cast<int64_t>(i), collective.ds_numels.front());
      break;
    default: words.receive.resize(static_cast<size_t>(collective.numel()), 1);
  }
  return {std::as_writable_bytes(std::span(words.send)), std::as_writable_bytes(std::span(words.receive))};
}

void MarkedData::reduce(const Collective& collective, std::span<const std::byte> of_all) {
  std::vector<uint32_t>& sums = open_.at({collective.group, collective.number}).receive;
  std::ranges::fill(sums, 0);
  for (size_t i = 0; i < of_all.size() / sizeof(uint32_t); ++i) {
    uint32_t word = 0;
    std::memcpy(&word, of_all.data() + i * sizeof(word), sizeof(word));
    sums[i % sums.size()] += word;
  }
}

void MarkedData::end(const Collective& collective, size_t index) {
  const auto open = open_.find({collective.group, collective.number});
  check(collective, index, open->second.receive);
  open_.erase(open);
}

void MarkedData::check(const Collective& collective, size_t index, const std::vector<uint32_t>& words) {
  const std::span<const uint32_t> all = words;
  if (collective.kind == CollectiveKind::kBroadcast) {
    check_piece(collective, index, 0, 0, all);
    return;
  }
  if (collective.kind != CollectiveKind::kAllGather && collective.kind != CollectiveKind::kReduceScatter)
    return;
  const bool reduced = collective.kind == CollectiveKind::kReduceScatter;
  const auto part = static_cast<size_t>(collective.shard_numel);
  size_t at = 0;
  for (size_t i = 0; i < collective.ds_ids.size(); ++i) {
    const int64_t shard = collective.shards[i];
    for (int rank = 0; rank < (reduced ? 1 : world_size_); ++rank) {
      check_piece(collective, index, i, (reduced ? rank_ : rank) * shard,
                  all.subspan(part * static_cast<size_t>(rank) + at, static_cast<size_t>(shard)));
    }
    at += static_cast<size_t>(shard);
  }
}

// One run of elements of a param, from its element `first` on.
void MarkedData::check_piece(const Collective& collective, size_t index, size_t param, int64_t first,
                             std::span<const uint32_t> words) {
  const bool reduced = collective.kind == CollectiveKind::kReduceScatter;
  const int ds_id = collective.ds_ids[param];
  const int64_t ds_numel = collective.ds_numels[param];
  for (size_t i = 0; i < words.size(); ++i) {
    const int64_t element = first + static_cast<int64_t>(i);
    if (element >= ds_numel) return;  // padding, whatever it holds
    const uint32_t expected =
        word_of(ds_id, element, ds_numel) * static_cast<uint32_t>(reduced ? world_size_ : 1);
    if (words[i] == expected) continue;
    const int of_ds_id = reduced ? -1 : ds_id_of(words[i]);
    const int64_t place = reduced ? static_cast<int64_t>(i) : element;
    const bool goes_on = !wrong_.empty() && wrong_.back().collective == index &&
                         wrong_.back().ds_id == ds_id && wrong_.back().end == place &&
                         wrong_.back().of_ds_id == of_ds_id;
    if (goes_on) {
      ++wrong_.back().end;
    } else {
      wrong_.push_back({index, ds_id, place, place + 1, of_ds_id});
    }
  }
}

}  // namespace zero3::sim
