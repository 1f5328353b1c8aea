#include "sim/backends/collective.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace zero3::sim {
namespace {

constexpr int64_t kTagHashNumel = 20;  // a SHA-1's bytes

std::string_view purpose(Meeting meeting) {
  switch (meeting) {
    case Meeting::kOverflowCheck: return "the overflow flag";
    case Meeting::kGradientNorm: return "the gradients' norm";
    case Meeting::kCheckpointDone: return "save_checkpoint";
    case Meeting::kCheckpointFiles: return "save_checkpoint, one for each rank's folder";
    case Meeting::kCheckpointTag: return "the checkpoint tag's hash";
  }
  return "?";
}

}  // namespace

std::string_view name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllGather: return "all-gather";
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kBroadcastInts: return "broadcast";
    case CollectiveKind::kReduceScatter: return "reduce-scatter";
    case CollectiveKind::kAllReduce: return "all-reduce";
    case CollectiveKind::kBarrier: return "barrier";
  }
  return "?";
}

std::string_view name(ProcessGroup group) {
  return group == ProcessGroup::kWorld ? "world" : "data-parallel";
}

std::string Collective::text() const {
  switch (kind) {
    case CollectiveKind::kAllGather:
      return fmt::format("all-gather of {} ({} elements a rank)", fmt::join(names, ", "), shard_numel);
    case CollectiveKind::kBroadcast:
      return fmt::format("broadcast of {} from rank {}", fmt::join(names, ", "), source_rank);
    case CollectiveKind::kBroadcastInts:
      return fmt::format("broadcast of {} ints from rank 0 (trace check)", ints.size());
    case CollectiveKind::kReduceScatter:
      return fmt::format("reduce-scatter of the gradients of {} ({} elements a rank)", fmt::join(names, ", "),
                         shard_numel);
    case CollectiveKind::kAllReduce: return fmt::format("all-reduce of {}", purpose(meeting));
    case CollectiveKind::kBarrier: return fmt::format("barrier of {}", purpose(meeting));
  }
  return "?";
}

bool same(const Collective& a, const Collective& b) {
  return alike(a, b) && a.ds_ids == b.ds_ids && a.ints == b.ints && a.meeting == b.meeting;
}

int64_t Collective::numel() const {
  switch (kind) {
    case CollectiveKind::kBroadcastInts: return static_cast<int64_t>(ints.size());
    case CollectiveKind::kBroadcast: return ds_numels.empty() ? 0 : ds_numels.front();
    case CollectiveKind::kAllReduce: return meeting == Meeting::kCheckpointTag ? kTagHashNumel : 1;
    case CollectiveKind::kBarrier: return 0;
    default: return shard_numel;
  }
}

bool receives(const Collective& collective, int rank) { return collective.source_rank != rank; }

bool moves_data(const Collective& collective) {
  return collective.kind != CollectiveKind::kBarrier && collective.kind != CollectiveKind::kBroadcastInts;
}

bool sums(const Collective& collective) {
  return collective.kind == CollectiveKind::kReduceScatter || collective.kind == CollectiveKind::kAllReduce;
}

bool alike(const Collective& a, const Collective& b) {
  return a.kind == b.kind && a.numel() == b.numel() && a.source_rank == b.source_rank;
}

}  // namespace zero3::sim
