#include "sim/backends/nccl/nccl_communicator.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>

#include <fmt/format.h>

#include "sim/backends/nccl/cuda_error.h"

namespace zero3::sim {
namespace {

constexpr size_t kWordBytes = sizeof(uint32_t);

void copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, const CudaStream& stream) {
  if (bytes > 0) check_cuda(cudaMemcpyAsync(to, from, bytes, kind, stream.get()), "a copy failed");
}

// A parameter may have no elements, and then no memory.
void copy_on_host(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

// Barriers are all-reduces of one word: NCCL has none of its own.
size_t receive_bytes(const Collective& collective, const Buffers& host) {
  if (collective.kind == CollectiveKind::kBarrier) return kWordBytes;
  if (collective.kind == CollectiveKind::kBroadcastInts) return collective.ints.size() * sizeof(int64_t);
  return host.receive.size();
}

// DeepSpeed's host reads what they bring.
bool host_reads(const Collective& collective) {
  return collective.kind == CollectiveKind::kBroadcastInts || collective.kind == CollectiveKind::kAllReduce ||
         collective.kind == CollectiveKind::kBarrier;
}

}  // namespace

// Up to v0.5.10 __allgather_stream's predecessor is waited for by torch.cuda.synchronize().
NcclCommunicator::NcclCommunicator(const MpiJob& job, const MpiGroups& groups, NcclDevice& device,
                                   const Behaviour& behaviour, MovedData& data,
                                   std::optional<KillFault> fault)
    : RankCommunicator(job.rank(), job.size(), behaviour),
      job_(job),
      groups_(groups),
      device_(device),
      data_(data),
      fault_(fault),
      host_waits_(behaviour.coordinator == Coordinator::kPrefetch) {
  device_.memory().reset_peak();
}

void NcclCommunicator::lay_out(const Collective& collective, Transfer& transfer) {
  if (moves_data(collective)) transfer.host = data_.begin(collective);
  if (collective.kind == CollectiveKind::kBroadcastInts) transfer.ints = collective.ints;
  if (moves_data(collective) && data_.on_device()) return;
  const size_t bytes = receive_bytes(collective, transfer.host);
  transfer.receive = PoolBuffer(device_.memory(), bytes);
  transfer.staged_receive = PoolBuffer(device_.pinned(), bytes);
  if (transfer.host.send.empty()) return;
  transfer.send = PoolBuffer(device_.memory(), transfer.host.send.size());
  transfer.staged_send = PoolBuffer(device_.pinned(), transfer.host.send.size());
}

// Copies to the GPU what the rank gives.
void NcclCommunicator::send_up(const Collective& collective, Transfer& transfer) {
  if (moves_data(collective) && data_.on_device()) return;
  const CudaStream& stream = device_.stream(collective.kind);
  if (!transfer.host.send.empty()) {
    copy_on_host(transfer.staged_send.data(), transfer.host.send.data(), transfer.host.send.size());
    copy(transfer.send.data(), transfer.staged_send.data(), transfer.send.bytes(), cudaMemcpyHostToDevice,
         stream);
    return;
  }
  size_t first = 0;
  size_t bytes = transfer.receive.bytes();
  if (collective.kind == CollectiveKind::kAllGather) {
    bytes /= static_cast<size_t>(world_size());
    first = bytes * static_cast<size_t>(rank());
  }
  std::byte* staged = transfer.staged_receive.data() + first;
  if (collective.kind == CollectiveKind::kBroadcastInts) {
    copy_on_host(staged, transfer.ints.data(), bytes);
  } else if (collective.kind == CollectiveKind::kBarrier) {
    std::memset(staged, 0, bytes);
  } else {
    copy_on_host(staged, transfer.host.receive.data() + first, bytes);
  }
  copy(transfer.receive.data() + first, staged, bytes, cudaMemcpyHostToDevice, stream);
}

void NcclCommunicator::announce(const Collective& collective, Transfer& transfer) {
  transfer.own = header_of(collective);
  transfer.all.resize(static_cast<size_t>(world_size()));
  MPI_Iallgather(&transfer.own, sizeof(CollectiveHeader), MPI_BYTE, transfer.all.data(),
                 sizeof(CollectiveHeader), MPI_BYTE, groups_.headers(collective.group), &transfer.headers);
}

Raised NcclCommunicator::start() {
  die_if_asked(fault_, rank(), sequence());
  const size_t index = sequence().size() - 1;
  transfers_.push_back(std::make_unique<Transfer>());
  Transfer& transfer = *transfers_.back();
  lay_out(collective(index), transfer);
  // Gradients come from the computation.
  if (collective(index).kind == CollectiveKind::kReduceScatter)
    device_.stream(CollectiveKind::kReduceScatter).wait_for(CudaEvent(device_.compute_stream()));
  send_up(collective(index), transfer);
  announce(collective(index), transfer);
  announced_.at(static_cast<size_t>(collective(index).group)).push_back(index);
  progress();
  return nullptr;
}

void NcclCommunicator::progress() {
  progress(ProcessGroup::kWorld);
  progress(ProcessGroup::kDataParallel);
  complete_arrived();
}

void NcclCommunicator::progress(ProcessGroup group) {
  std::deque<size_t>& announced = announced_.at(static_cast<size_t>(group));
  while (device_.group(group).ready() && !announced.empty()) {
    const size_t index = announced.front();
    Transfer& transfer = *transfers_[index];
    int all_told = 0;
    MPI_Test(&transfer.headers, &all_told, MPI_STATUS_IGNORE);
    if (all_told == 0) return;
    announced.pop_front();
    const bool meets = std::ranges::all_of(
        transfer.all, [&](const CollectiveHeader& other) { return other == transfer.own; });
    transfer.stage = meets ? Stage::kBegun : Stage::kNeverMeets;
    if (meets) begin(index, transfer);
  }
}

void NcclCommunicator::begin(size_t index, Transfer& transfer) {
  const Collective& what = collective(index);
  NcclGroup& group = device_.group(what.group);
  cudaStream_t stream = device_.stream(what.kind).get();
  const bool in_place = moves_data(what) && data_.on_device();
  std::byte* receive = in_place ? transfer.host.receive.data() : transfer.receive.data();
  const std::byte* send = in_place ? transfer.host.send.data() : transfer.send.data();
  const size_t words = receive_bytes(what, transfer.host) / kWordBytes;
  const auto called = [&](ncclResult_t result) {
    group.called(result, fmt::format("in collective {} of rank {} on GPU {}, {} of 4-byte integers", index,
                                     rank(), device_.gpu(), what.text()));
  };
  switch (what.kind) {
    case CollectiveKind::kAllGather: {
      const size_t part = words / static_cast<size_t>(world_size());
      const std::byte* own = receive + part * kWordBytes * static_cast<size_t>(rank());
      called(ncclAllGather(own, receive, part, ncclUint32, group.get(), stream));
      break;
    }
    case CollectiveKind::kReduceScatter:
      called(ncclReduceScatter(send, receive, words, ncclUint32, ncclSum, group.get(), stream));
      break;
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kBroadcastInts:
      called(ncclBroadcast(receive, receive, words, ncclUint32, what.source_rank, group.get(), stream));
      break;
    default: called(ncclAllReduce(receive, receive, words, ncclUint32, ncclSum, group.get(), stream));
  }
}

Raised NcclCommunicator::finish() {
  const size_t index = wait_points().back().collective;
  if (transfers_[index] == nullptr) return nullptr;
  Transfer& transfer = *transfers_[index];
  const Collective& what = collective(index);
  const auto begun = [&] {
    progress();
    return transfer.stage == Stage::kBegun && device_.group(what.group).ready();
  };
  if (!job_.poll(begun, job_.timeout_ms())) {
    if (transfer.stage != Stage::kBegun)
      return raise(FailureKind::kHang, "Hang", fmt::format("waits in {}", what.text()));
    throw BackendUnavailable(
        fmt::format("NCCL does not begin {} within --timeout, though all ranks issued it", what.text()));
  }
  wait_on_stream(index, transfer);
  return nullptr;
}

// What handle.wait() does, and what DeepSpeed does around it.
void NcclCommunicator::wait_on_stream(size_t index, Transfer& transfer) {
  const Collective& what = collective(index);
  const CudaStream& stream = device_.stream(what.kind);
  OngoingEvents* ongoing = nullptr;
  if (what.kind == CollectiveKind::kAllGather && !host_waits_) ongoing = &fetches_;
  if (what.kind == CollectiveKind::kReduceScatter) ongoing = &reductions_;
  if (ongoing != nullptr) ongoing->make_room([&](const CudaEvent& oldest) { block_on(oldest, what); });
  if (what.kind == CollectiveKind::kAllGather) keep_params(what, transfer);
  copy(transfer.staged_receive.data(), transfer.receive.data(), transfer.receive.bytes(),
       cudaMemcpyDeviceToHost, stream);
  const auto arrived = std::make_shared<const CudaEvent>(stream);
  transfer.arrived = arrived;
  if (what.kind == CollectiveKind::kAllGather) {
    for (const int ds_id : what.ds_ids) {
      if (const auto live = live_.find(ds_id); live != live_.end()) live->second.written = arrived;
    }
    device_.compute_stream().wait_for(*arrived);
  }
  if (ongoing != nullptr) ongoing->add(arrived);
  arriving_.push_back(index);
  if (host_reads(what) || (what.kind == CollectiveKind::kAllGather && host_waits_)) block_on(*arrived, what);
  complete_arrived();
}

// Each param gets memory of its own, as DeepSpeed's handle copies it out of the coalesced buffer.
void NcclCommunicator::keep_params(const Collective& collective, Transfer& transfer) {
  if (data_.on_device()) return;
  const auto ranks = static_cast<size_t>(world_size());
  const size_t part = transfer.receive.bytes() / ranks;
  const std::byte* from = transfer.receive.data();
  for (size_t i = 0; i < collective.ds_ids.size(); ++i) {
    const size_t shard = static_cast<size_t>(collective.shards[i]) * kWordBytes;
    PoolBuffer memory(device_.memory(), shard * ranks);
    if (shard > 0) {
      check_cuda(cudaMemcpy2DAsync(memory.data(), shard, from, part, shard, ranks, cudaMemcpyDeviceToDevice,
                                   device_.stream(collective.kind).get()),
                 "a copy failed");
    }
    from += shard;
    released(collective.ds_ids[i]);
    live_[collective.ds_ids[i]].memory = std::move(memory);
  }
}

void NcclCommunicator::released(int ds_id) {
  const auto live = live_.find(ds_id);
  if (live == live_.end()) return;
  released_.push_back(std::move(live->second));
  live_.erase(live);
}

void NcclCommunicator::block_on(const CudaEvent& event, const Collective& collective) {
  const auto done = [&] {
    progress();
    return event.done();
  };
  if (job_.poll(done, job_.timeout_ms())) return;
  throw BackendUnavailable(fmt::format(
      "GPU {} does not come to the end of what NCCL has begun within --timeout; rank {} waits in {}",
      device_.gpu(), rank(), collective.text()));
}

void NcclCommunicator::complete_arrived() {
  std::erase_if(arriving_, [this](size_t index) {
    Transfer& transfer = *transfers_[index];
    if (!transfer.arrived->done()) return false;
    complete(index, transfer);
    return true;
  });
  std::erase_if(released_, [](const LiveParam& param) { return param.written->done(); });
}

void NcclCommunicator::complete(size_t index, Transfer& transfer) {
  const Collective& what = collective(index);
  const std::byte* arrived = transfer.staged_receive.data();
  if (what.kind == CollectiveKind::kBroadcastInts) {
    copy_on_host(transfer.ints.data(), arrived, transfer.staged_receive.bytes());
    return;  // until receive()
  }
  if (moves_data(what)) {
    if (!data_.on_device()) copy_on_host(transfer.host.receive.data(), arrived, transfer.host.receive.size());
    data_.end(what, index);
  }
  transfers_[index].reset();
}

void NcclCommunicator::receive(std::vector<int64_t>& ints) {
  std::unique_ptr<Transfer>& transfer = transfers_[wait_points().back().collective];
  ints = std::move(transfer->ints);
  transfer.reset();
}

bool NcclCommunicator::begun_up_to(const std::array<int64_t, kProcessGroups>& numbers) const {
  for (size_t group = 0; group < announced_.size(); ++group) {
    const std::deque<size_t>& announced = announced_.at(group);
    if (!announced.empty() && static_cast<int64_t>(collective(announced.front()).number) < numbers.at(group))
      return false;
  }
  return true;
}

bool NcclCommunicator::finish_all() {
  for (const Collective& one : sequence()) ++own_counts_.at(static_cast<size_t>(one.group));
  all_counts_.resize(own_counts_.size() * static_cast<size_t>(world_size()));
  MPI_Iallgather(own_counts_.data(), kProcessGroups, MPI_INT64_T, all_counts_.data(), kProcessGroups,
                 MPI_INT64_T, groups_.data(ProcessGroup::kWorld), &counts_);
  const auto all_ended = [this] {
    progress();
    int done = 0;
    MPI_Test(&counts_, &done, MPI_STATUS_IGNORE);
    return done != 0;
  };
  if (!job_.poll(all_ended, 2 * job_.timeout_ms() + MpiJob::kGraceMs)) return false;
  std::array<int64_t, kProcessGroups> issued_by_all = own_counts_;
  for (size_t i = 0; i < all_counts_.size(); ++i) {
    int64_t& least = issued_by_all.at(i % own_counts_.size());
    least = std::min(least, all_counts_[i]);
  }
  const auto all_begun = [&] {
    progress();
    return begun_up_to(issued_by_all) && device_.group(ProcessGroup::kWorld).ready() &&
           device_.group(ProcessGroup::kDataParallel).ready();
  };
  if (!job_.poll(all_begun, job_.timeout_ms()))
    throw BackendUnavailable("NCCL does not begin within --timeout what all ranks have issued");
  if (sequence().empty()) return true;
  for (const CollectiveKind kind :
       {CollectiveKind::kAllGather, CollectiveKind::kReduceScatter, CollectiveKind::kAllReduce})
    block_on(CudaEvent(device_.stream(kind)), sequence().back());
  complete_arrived();
  give_back_memory();
  return true;
}

// Of all that was gathered, and of collectives that others never joined.
void NcclCommunicator::give_back_memory() {
  live_.clear();
  for (const std::unique_ptr<Transfer>& transfer : transfers_) {
    if (transfer == nullptr) continue;
    for (PoolBuffer* buffer :
         {&transfer->send, &transfer->receive, &transfer->staged_send, &transfer->staged_receive})
      *buffer = PoolBuffer();
  }
}

bool NcclCommunicator::has_open_collectives() {
  int done = 0;
  MPI_Test(&counts_, &done, MPI_STATUS_IGNORE);
  if (done == 0) return true;
  return std::ranges::any_of(transfers_, [](const std::unique_ptr<Transfer>& transfer) {
    int told = 1;
    if (transfer != nullptr) MPI_Test(&transfer->headers, &told, MPI_STATUS_IGNORE);
    return told == 0;
  });
}

DeviceUsage NcclCommunicator::usage() const {
  return {.gpu = device_.gpu(),
          .peak_bytes = device_.memory().peak_bytes(),
          .driver_peak_bytes = device_.memory().driver_peak_bytes(),
          .peak_fetch_events = fetches_.peak(),
          .blocked_fetches = fetches_.blocked()};
}

}  // namespace zero3::sim
