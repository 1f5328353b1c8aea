#include "sim/report/backend_words.h"

#include <fmt/format.h>

namespace zero3::sim {
namespace {

std::string_view op_type(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllGather: return "_ALLGATHER_BASE";
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kBroadcastInts: return "BROADCAST";
    case CollectiveKind::kReduceScatter: return "_REDUCE_SCATTER_BASE";
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kBarrier: return "ALLREDUCE";  // NCCL has no barrier of its own
  }
  return "?";
}

}  // namespace

std::string nccl_text(const Waiting& waiting, int world_size) {
  const Collective& collective = waiting.collective;
  int64_t in = collective.kind == CollectiveKind::kBarrier ? 1 : collective.numel();
  int64_t out = in;
  if (collective.kind == CollectiveKind::kAllGather) out = in * world_size;
  if (collective.kind == CollectiveKind::kReduceScatter) in = out * world_size;
  return fmt::format(
      "[Rank {}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=..., OpType={}, "
      "NumelIn={}, NumelOut={}, Timeout(ms)={}) ran for ... milliseconds before timing out.",
      waiting.rank, op_type(collective.kind), in, out, kTimeoutMs);
}

std::string gloo_text(const Waiting& waiting) {
  if (waiting.obstacle == Obstacle::kOtherSize) {
    return waiting.has_least
               ? "terminate called after throwing an instance of 'gloo::EnforceNotMet': [enforce fail at "
                 ".../pair.cc] op.preamble.length <= op.nbytes (killed by SIGABRT)"
               : "RuntimeError: [.../pair.cc] Connection closed by peer, or Read error: Connection reset "
                 "by peer, once the killed rank is missed; until then it goes on with wrong data";
  }
  const CollectiveKind kind = waiting.collective.kind;
  const bool sends = kind == CollectiveKind::kAllGather ||
                     (waiting.collective.source_rank >= 0 && waiting.collective.source_rank == waiting.rank);
  return fmt::format(
      "RuntimeError: [.../unbound_buffer.cc] Timed out waiting {}ms for {} operation to complete", kTimeoutMs,
      sends ? "send" : "recv");
}

std::string obstacle_text(Obstacle obstacle) {
  switch (obstacle) {
    case Obstacle::kNone: return "";
    case Obstacle::kAbsent: return "never issued there";
    case Obstacle::kOtherOperation:
      return "another operation there: NCCL does not check, it hangs or takes one's bytes for the other's; "
             "gloo waits";
    case Obstacle::kOtherSize:
      return "another size there: NCCL does not check, it hangs or goes on with wrong data; gloo kills who "
             "gets too much";
  }
  return "";
}

}  // namespace zero3::sim
