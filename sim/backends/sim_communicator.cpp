#include "sim/backends/sim_communicator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "coordinator/param.h"

namespace zero3::sim {

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
  }
  return "?";
}

Collective SimCommunicator::over_params(CollectiveKind kind, std::span<Param* const> params) const {
  Collective collective{.kind = kind, .statement = statement_};
  for (const Param* param : params) {
    collective.ds_ids.push_back(param->ds_id);
    collective.names.push_back(param->name);
    collective.shard_numel += param->partition_numel(world_size_);
  }
  return collective;
}

Raised SimCommunicator::issue(Collective collective) {
  const size_t index = sequence_.size();
  sequence_.push_back(std::move(collective));
  if (!divergence_ || divergence_->collective != index || divergence_->of_rank0) return nullptr;
  return raise(FailureKind::kHang, "Hang", divergence_->text);
}

Raised SimCommunicator::launch_all_gather(std::span<Param* const> params, Request& request) {
  request = static_cast<Request>(sequence_.size());
  if (world_size_ == 1) return nullptr;
  return issue(over_params(CollectiveKind::kAllGather, params));
}

Raised SimCommunicator::broadcast(const Param& param, int source_rank) {
  if (world_size_ == 1) return nullptr;
  auto* pointer = const_cast<Param*>(&param);
  Collective collective = over_params(CollectiveKind::kBroadcast, std::span(&pointer, 1));
  collective.source_rank = source_rank;
  return issue(std::move(collective));
}

Raised SimCommunicator::broadcast_ints(std::span<const int64_t> own, std::vector<int64_t>& of_rank0) {
  of_rank0.assign(own.begin(), own.end());
  if (world_size_ == 1) return nullptr;
  const size_t index = sequence_.size();
  if (divergence_ && divergence_->collective == index && divergence_->of_rank0)
    of_rank0 = *divergence_->of_rank0;
  return issue({.kind = CollectiveKind::kBroadcastInts,
                .ints = {own.begin(), own.end()},
                .source_rank = 0,
                .statement = statement_});
}

Raised SimCommunicator::reduce_scatter(std::span<Param* const> params) {
  if (world_size_ == 1) return nullptr;
  return issue(over_params(CollectiveKind::kReduceScatter, params));
}

}  // namespace zero3::sim
