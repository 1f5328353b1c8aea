#include "sim/backends/rank_communicator.h"

#include <utility>

#include "coordinator/param.h"

namespace zero3::sim {

Collective RankCommunicator::over_params(CollectiveKind kind, std::span<Param* const> params) const {
  Collective collective{.kind = kind};
  collective.ds_ids.reserve(params.size());
  collective.names.reserve(params.size());
  collective.shards.reserve(params.size());
  collective.ds_numels.reserve(params.size());
  for (const Param* param : params) {
    collective.ds_ids.push_back(param->ds_id);
    collective.names.push_back(param->name);
    collective.shards.push_back(param->partition_numel(world_size_));
    collective.ds_numels.push_back(param->ds_numel);
    collective.shard_numel += collective.shards.back();
  }
  return collective;
}

Raised RankCommunicator::launch(Collective collective) {
  collective.statement = statement_;
  collective.number = next_number_.at(static_cast<size_t>(collective.group))++;
  sequence_.push_back(std::move(collective));
  return start();
}

Raised RankCommunicator::wait_for(size_t collective) {
  wait_points_.push_back({collective, sequence_.size()});
  return finish();
}

Raised RankCommunicator::issue(Collective collective) {
  if (world_size_ == 1) return nullptr;
  if (Raised raised = launch(std::move(collective))) return raised;
  return wait_for(sequence_.size() - 1);
}

Raised RankCommunicator::launch_all_gather(std::span<Param* const> params, Request& request) {
  request = static_cast<Request>(sequence_.size());
  return world_size_ == 1 ? nullptr : launch(over_params(CollectiveKind::kAllGather, params));
}

Raised RankCommunicator::wait(Request request) {
  return world_size_ == 1 ? nullptr : wait_for(static_cast<size_t>(request));
}

Raised RankCommunicator::broadcast(const Param& param, int source_rank) {
  auto* pointer = const_cast<Param*>(&param);
  Collective collective = over_params(CollectiveKind::kBroadcast, std::span(&pointer, 1));
  collective.source_rank = source_rank;
  return issue(std::move(collective));
}

Raised RankCommunicator::broadcast_ints(std::span<const int64_t> own, std::vector<int64_t>& of_rank0) {
  of_rank0.assign(own.begin(), own.end());
  if (world_size_ == 1) return nullptr;
  Raised raised =
      issue({.kind = CollectiveKind::kBroadcastInts, .ints = {own.begin(), own.end()}, .source_rank = 0});
  if (raised == nullptr) receive(of_rank0);
  return raised;
}

// The old coordinator's optimizer reduces one gradient at a time, the new one's a bucket.
Raised RankCommunicator::reduce_scatter(std::span<Param* const> params) {
  const size_t at_a_time = behaviour_.coordinator == Coordinator::kPrefetch ? 1 : params.size();
  for (size_t first = 0; first < params.size(); first += at_a_time) {
    Collective collective = over_params(CollectiveKind::kReduceScatter, params.subspan(first, at_a_time));
    if (behaviour_.own_group_for_grads) collective.group = ProcessGroup::kDataParallel;
    if (Raised raised = issue(std::move(collective))) return raised;
  }
  return nullptr;
}

ProcessGroup RankCommunicator::group_of(Meeting meeting) const {
  bool own = meeting == Meeting::kOverflowCheck;
  if (meeting == Meeting::kGradientNorm) own = behaviour_.own_group_for_norms;
  if (meeting == Meeting::kCheckpointFiles) own = behaviour_.files_barrier == FilesBarrier::kOwnGroup;
  return own ? ProcessGroup::kDataParallel : ProcessGroup::kWorld;
}

Raised RankCommunicator::meet(Meeting meeting) {
  const bool barrier = meeting == Meeting::kCheckpointDone || meeting == Meeting::kCheckpointFiles;
  return issue({.kind = barrier ? CollectiveKind::kBarrier : CollectiveKind::kAllReduce,
                .group = group_of(meeting),
                .meeting = meeting});
}

}  // namespace zero3::sim
