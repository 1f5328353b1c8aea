#include "sim/backends/sim_communicator.h"

#include <utility>

#include "coordinator/param.h"

namespace zero3::sim {

Collective SimCommunicator::over_params(CollectiveKind kind, std::span<Param* const> params) const {
  Collective collective{.kind = kind};
  for (const Param* param : params) {
    collective.ds_ids.push_back(param->ds_id);
    collective.names.push_back(param->name);
    collective.shards.push_back(param->partition_numel(world_size_));
    collective.ds_numels.push_back(param->ds_numel);
    collective.shard_numel += collective.shards.back();
  }
  return collective;
}

void SimCommunicator::launch(Collective collective) {
  collective.statement = statement_;
  collective.number = next_number_.at(static_cast<size_t>(collective.group))++;
  sequence_.push_back(std::move(collective));
}

Raised SimCommunicator::wait_for(size_t collective) {
  const size_t here = wait_points_.size();
  wait_points_.push_back({collective, sequence_.size()});
  if (!divergence_ || divergence_->wait_point != here || divergence_->of_rank0) return nullptr;
  return raise(FailureKind::kHang, "Hang", divergence_->text);
}

Raised SimCommunicator::issue(Collective collective) {
  if (world_size_ == 1) return nullptr;
  launch(std::move(collective));
  return wait_for(sequence_.size() - 1);
}

Raised SimCommunicator::launch_all_gather(std::span<Param* const> params, Request& request) {
  request = static_cast<Request>(sequence_.size());
  if (world_size_ > 1) launch(over_params(CollectiveKind::kAllGather, params));
  return nullptr;
}

Raised SimCommunicator::wait(Request request) {
  return world_size_ == 1 ? nullptr : wait_for(static_cast<size_t>(request));
}

Raised SimCommunicator::broadcast(const Param& param, int source_rank) {
  auto* pointer = const_cast<Param*>(&param);
  Collective collective = over_params(CollectiveKind::kBroadcast, std::span(&pointer, 1));
  collective.source_rank = source_rank;
  return issue(std::move(collective));
}

Raised SimCommunicator::broadcast_ints(std::span<const int64_t> own, std::vector<int64_t>& of_rank0) {
  of_rank0.assign(own.begin(), own.end());
  if (divergence_ && divergence_->wait_point == wait_points_.size() && divergence_->of_rank0)
    of_rank0 = *divergence_->of_rank0;
  return issue({.kind = CollectiveKind::kBroadcastInts, .ints = {own.begin(), own.end()}, .source_rank = 0});
}

// The old coordinator's optimizer reduces one gradient at a time, the new one's a bucket.
Raised SimCommunicator::reduce_scatter(std::span<Param* const> params) {
  const size_t at_a_time = behaviour_.coordinator == Coordinator::kPrefetch ? 1 : params.size();
  for (size_t first = 0; first < params.size(); first += at_a_time) {
    Collective collective = over_params(CollectiveKind::kReduceScatter, params.subspan(first, at_a_time));
    if (behaviour_.own_group_for_grads) collective.group = ProcessGroup::kDataParallel;
    if (Raised raised = issue(std::move(collective))) return raised;
  }
  return nullptr;
}

ProcessGroup SimCommunicator::group_of(Meeting meeting) const {
  bool own = meeting == Meeting::kOverflowCheck;
  if (meeting == Meeting::kGradientNorm) own = behaviour_.own_group_for_norms;
  if (meeting == Meeting::kCheckpointFiles) own = behaviour_.files_barrier == FilesBarrier::kOwnGroup;
  return own ? ProcessGroup::kDataParallel : ProcessGroup::kWorld;
}

Raised SimCommunicator::meet(Meeting meeting) {
  const bool barrier = meeting == Meeting::kCheckpointDone || meeting == Meeting::kCheckpointFiles;
  return issue({.kind = barrier ? CollectiveKind::kBarrier : CollectiveKind::kAllReduce,
                .group = group_of(meeting),
                .meeting = meeting});
}

}  // namespace zero3::sim
