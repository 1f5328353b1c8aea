#include "sim/mixed_data.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace zero3::sim {
namespace {

// A parameter's place in what one rank contributes: its shard begins at `at`.
struct Placed {
  int ds_id;
  std::string name;
  int64_t at;
  int64_t shard;
  int64_t ds_numel;
};

std::vector<Placed> layout(const Collective& collective) {
  const bool whole = collective.kind == CollectiveKind::kBroadcast;
  std::vector<Placed> places;
  int64_t at = 0;
  for (size_t i = 0; i < collective.ds_ids.size(); ++i) {
    const int64_t length = whole ? collective.ds_numels[i] : collective.shards[i];
    places.push_back({collective.ds_ids[i], collective.names[i], at, length, collective.ds_numels[i]});
    at += length;
  }
  return places;
}

// What `rank` sends into the place that the holders take for `own`.
void add_pieces(std::vector<MixedPiece>& pieces, const Side& holders, const Placed& own, int rank,
                const std::vector<Placed>& theirs) {
  const CollectiveKind kind = holders.collective->kind;
  for (const Placed& other : theirs) {
    const int64_t from = std::max(own.at, other.at);
    const int64_t to = std::min(own.at + own.shard, other.at + other.shard);
    if (from >= to || (own.ds_id == other.ds_id && own.at == other.at)) continue;
    const int64_t base = kind == CollectiveKind::kAllGather ? rank * own.shard : 0;
    const int64_t end = std::min(base + to - own.at, own.ds_numel);
    if (base + from - own.at >= end) continue;  // padding
    pieces.push_back(
        {holders.ranks, own.ds_id, own.name, rank, other.ds_id, other.name, base + from - own.at, end});
  }
}

}  // namespace

std::vector<MixedPiece> mixed_pieces(const std::vector<Side>& sides) {
  std::vector<MixedPiece> pieces;
  for (const Side& holders : sides) {
    const int source = holders.collective->source_rank;
    for (const Placed& own : layout(*holders.collective)) {
      for (const Side& senders : sides) {
        if (&senders == &holders) continue;
        for (const int rank : senders.ranks) {
          if (source < 0 || source == rank)
            add_pieces(pieces, holders, own, rank, layout(*senders.collective));
        }
      }
    }
  }
  return pieces;
}

std::string rank_list(const std::vector<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

std::string text_of(const MixUp& mix_up) {
  std::string text =
      fmt::format("collective {} of the {} group", mix_up.where.number, name(mix_up.where.group));
  for (size_t i = 0; i < mix_up.where.sides.size(); ++i) {
    const Side& side = mix_up.where.sides[i];
    text += fmt::format("{} {}: {}", i == 0 ? ":" : ",", rank_list(side.ranks), side.collective->text());
  }
  for (const MixedPiece& piece : mix_up.pieces) {
    const std::string_view what = mix_up.of_gradients() ? "of the gradient " : "";
    text +=
        fmt::format("; on {}, elements {} to {} {}of {} are {} of rank {}", rank_list(piece.ranks),
                    piece.first, piece.end - 1, what, piece.name,
                    mix_up.of_gradients() ? "summed with those of " + piece.of_name : piece.of_name + "'s",
                    piece.from_rank);
  }
  return text;
}

}  // namespace zero3::sim
