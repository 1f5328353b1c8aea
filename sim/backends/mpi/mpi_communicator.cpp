#include "sim/backends/mpi/mpi_communicator.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "sim/fnv1a.h"

namespace zero3::sim {
namespace {

int count_of(size_t elements) {
  if (elements > static_cast<size_t>(std::numeric_limits<int>::max())) {
    throw BackendUnavailable(fmt::format("a collective of {} elements: MPI counts to {}", elements,
                                         std::numeric_limits<int>::max()));
  }
  return static_cast<int>(elements);
}

// Of 27 bits, which Open MPI and MPICH take: other headers have other tags, but for one in a hundred million.
int tag_of(const CollectiveHeader& header) {
  const uint64_t hash = fnv1a({reinterpret_cast<const char*>(&header), sizeof(header)});
  return static_cast<int>((hash ^ hash >> 32) & 0x7ffffff);
}

}  // namespace

MpiGroups::MpiGroups(MpiJob& job) {
  for (MPI_Comm& one : data_) one = job.duplicate();
  for (MPI_Comm& one : headers_) one = job.duplicate();
}

MpiGroups::~MpiGroups() {
  for (MPI_Comm& one : data_) MPI_Comm_free(&one);
  for (MPI_Comm& one : headers_) MPI_Comm_free(&one);
}

bool MpiCommunicator::has_open_collectives() {
  return std::ranges::any_of(
      posted_, [](const std::unique_ptr<Posted>& posted) { return posted != nullptr && !complete(*posted); });
}

bool MpiCommunicator::complete(Posted& posted) {
  int done = 0;
  const auto count = static_cast<int>(posted.requests.size());
  return MPI_Testall(count, posted.requests.data(), &done, MPI_STATUSES_IGNORE) == MPI_SUCCESS && done != 0;
}

Raised MpiCommunicator::start() {
  die_if_asked(fault_, rank(), sequence());
  const Collective& collective = sequence().back();
  posted_.push_back(std::make_unique<Posted>());
  Posted& posted = *posted_.back();
  posted.own = header_of(collective);
  if (collective.kind == CollectiveKind::kAllGather) {
    post_all_gather(collective, posted);
  } else {
    post_headers(collective, posted);
  }
  return nullptr;
}

void MpiCommunicator::post_all_gather(const Collective& collective, Posted& posted) {
  const std::span<std::byte> parts = data_.begin(collective).receive;
  const auto ranks = static_cast<size_t>(world_size());
  const auto own = static_cast<size_t>(rank());
  const size_t part = parts.size() / ranks;
  const int count = count_of(part);
  const int tag = tag_of(posted.own);
  MPI_Comm group = groups_.data(collective.group);
  posted.requests.resize(2 * (ranks - 1));
  MPI_Request* request = posted.requests.data();
  // Each begins with its neighbours: not all with the same.
  for (size_t step = 1; step < ranks; ++step) {
    const size_t from = (own + ranks - step) % ranks;
    MPI_Irecv(parts.data() + part * from, count, MPI_BYTE, static_cast<int>(from), tag, group, request++);
  }
  for (size_t step = 1; step < ranks; ++step) {
    const auto to = static_cast<int>((own + step) % ranks);
    MPI_Isend(parts.data() + part * own, count, MPI_BYTE, to, tag, group, request++);
  }
  posted.has_data = true;
}

void MpiCommunicator::post_headers(const Collective& collective, Posted& posted) {
  posted.all.resize(static_cast<size_t>(world_size()));
  posted.requests.resize(1);
  MPI_Iallgather(&posted.own, sizeof(CollectiveHeader), MPI_BYTE, posted.all.data(), sizeof(CollectiveHeader),
                 MPI_BYTE, groups_.headers(collective.group), posted.requests.data());
}

void MpiCommunicator::post_data(const Collective& collective, Posted& posted) {
  MPI_Comm group = groups_.data(collective.group);
  MPI_Request* request = posted.requests.data();
  posted.has_data = true;
  if (collective.kind == CollectiveKind::kBarrier) {
    MPI_Ibarrier(group, request);
    return;
  }
  if (collective.kind == CollectiveKind::kBroadcastInts) {
    posted.ints = collective.ints;
    MPI_Ibcast(posted.ints.data(), count_of(posted.ints.size()), MPI_INT64_T, 0, group, request);
    return;
  }
  const Buffers buffers = data_.begin(collective);
  void* receive = buffers.receive.data();
  if (collective.kind == CollectiveKind::kBroadcast) {
    MPI_Ibcast(receive, count_of(buffers.receive.size()), MPI_BYTE, collective.source_rank, group, request);
  } else if (collective.kind == CollectiveKind::kReduceScatter) {
    // Summed by rank: MPI promises no order, and two orders give two sums.
    posted.of_all.resize(buffers.send.size());
    const int part = count_of(buffers.receive.size());
    MPI_Ialltoall(buffers.send.data(), part, MPI_BYTE, posted.of_all.data(), part, MPI_BYTE, group, request);
  } else {
    posted.of_all.resize(buffers.receive.size() * static_cast<size_t>(world_size()));
    const int own = count_of(buffers.receive.size());
    MPI_Iallgather(receive, own, MPI_BYTE, posted.of_all.data(), own, MPI_BYTE, group, request);
  }
}

Raised MpiCommunicator::finish() {
  const size_t index = wait_points().back().collective;
  const Collective& collective = sequence()[index];
  std::unique_ptr<Posted>& posted = posted_[index];
  if (posted == nullptr) return nullptr;
  bool others_differ = false;
  const auto done = [&] {
    if (others_differ || !complete(*posted)) return false;
    if (posted->has_data) return true;
    others_differ =
        std::ranges::any_of(posted->all, [&](const CollectiveHeader& other) { return other != posted->own; });
    if (!others_differ) post_data(collective, *posted);
    return false;
  };
  if (!job_.poll(done, job_.timeout_ms()))
    return raise(FailureKind::kHang, "Hang", fmt::format("waits in {}", collective.text()));
  if (sums(collective)) data_.reduce(collective, posted->of_all);
  if (moves_data(collective)) data_.end(collective, index);
  if (collective.kind != CollectiveKind::kBroadcastInts) posted.reset();
  return nullptr;
}

void MpiCommunicator::receive(std::vector<int64_t>& ints) {
  std::unique_ptr<Posted>& posted = posted_[wait_points().back().collective];
  ints = std::move(posted->ints);
  posted.reset();
}

}  // namespace zero3::sim
