#include "sim/backends/mpi/mpi_communicator.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <limits>

#include <fmt/format.h>

namespace zero3::sim {
namespace {

constexpr size_t kHeaders = 0;
constexpr size_t kData = 1;
int count_of(size_t elements) {
  if (elements > static_cast<size_t>(std::numeric_limits<int>::max())) {
    throw BackendUnavailable(fmt::format("a collective of {} elements: MPI counts to {}", elements,
                                         std::numeric_limits<int>::max()));
  }
  return static_cast<int>(elements);
}

}  // namespace

MpiGroups::MpiGroups(const MpiJob& job) {
  for (MPI_Comm& one : data_) one = job.duplicate();
  for (MPI_Comm& one : headers_) one = job.duplicate();
}

MpiGroups::~MpiGroups() {
  for (MPI_Comm& one : data_) MPI_Comm_free(&one);
  for (MPI_Comm& one : headers_) MPI_Comm_free(&one);
}

bool MpiCommunicator::has_open_collectives() {
  return std::ranges::any_of(posted_, [](const std::unique_ptr<Posted>& posted) {
    return posted != nullptr && !(complete(posted->requests[kHeaders]) && complete(posted->requests[kData]));
  });
}

void MpiCommunicator::die_if_asked() const {
  const size_t index = sequence().size() - 1;
  if (!fault_ || fault_->rank != rank() || fault_->collective != index) return;
  std::fprintf(stderr, "rank %d: killed by --fault at its collective %zu, %s\n", rank(), index,
               sequence().back().text().c_str());
  std::fflush(stderr);
  std::raise(SIGKILL);
}

bool MpiCommunicator::complete(MPI_Request& request) {
  int done = 0;
  // An error is what ranks that differ may meet in the data; their headers tell.
  return MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done != 0;
}

Raised MpiCommunicator::start() {
  die_if_asked();
  const Collective& collective = sequence().back();
  posted_.push_back(std::make_unique<Posted>());
  Posted& posted = *posted_.back();
  posted.own = {static_cast<int64_t>(collective.kind), collective.numel(), collective.source_rank,
                static_cast<int64_t>(collective.number)};
  if (collective.kind == CollectiveKind::kAllGather) {
    post_all_gather(collective, posted);
  } else {
    post_headers(collective, posted);
    post_data(collective, posted);
  }
  return nullptr;
}

void MpiCommunicator::post_all_gather(const Collective& collective, Posted& posted) {
  posted.parts = data_.begin(collective).receive;
  const size_t part = posted.parts.size() / static_cast<size_t>(world_size());
  posted.part_bytes = part;
  std::memcpy(posted.parts.data() + part * static_cast<size_t>(rank()), &posted.own, sizeof(Header));
  const int count = count_of(part);
  MPI_Iallgather(MPI_IN_PLACE, count, MPI_BYTE, posted.parts.data(), count, MPI_BYTE,
                 groups_.data(collective.group), &posted.requests[kData]);
}

void MpiCommunicator::post_headers(const Collective& collective, Posted& posted) {
  posted.all.resize(static_cast<size_t>(world_size()));
  MPI_Iallgather(&posted.own, sizeof(Header), MPI_BYTE, posted.all.data(), sizeof(Header), MPI_BYTE,
                 groups_.headers(collective.group), &posted.requests[kHeaders]);
}

void MpiCommunicator::post_data(const Collective& collective, Posted& posted) {
  MPI_Comm group = groups_.data(collective.group);
  MPI_Request* request = &posted.requests[kData];
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
  const int words = count_of(buffers.receive.size() / sizeof(uint32_t));
  if (collective.kind == CollectiveKind::kBroadcast) {
    MPI_Ibcast(receive, words, MPI_UINT32_T, collective.source_rank, group, request);
  } else if (collective.kind == CollectiveKind::kReduceScatter) {
    MPI_Ireduce_scatter_block(buffers.send.data(), receive, words, MPI_UINT32_T, MPI_SUM, group, request);
  } else {
    MPI_Iallreduce(MPI_IN_PLACE, receive, words, MPI_UINT32_T, MPI_SUM, group, request);
  }
}

std::optional<bool> MpiCommunicator::alike(Posted& posted) {
  if (!posted.all.empty()) {
    if (!complete(posted.requests[kHeaders])) return std::nullopt;
    return std::ranges::all_of(posted.all, [&](const Header& other) { return other == posted.own; });
  }
  if (!complete(posted.requests[kData])) return std::nullopt;
  for (auto part = posted.parts; !part.empty(); part = part.subspan(posted.part_bytes)) {
    if (std::memcmp(part.data(), &posted.own, sizeof(Header)) != 0) return false;
  }
  return true;
}

Raised MpiCommunicator::finish() {
  const size_t index = wait_points().back().collective;
  const Collective& collective = sequence()[index];
  std::unique_ptr<Posted>& posted = posted_[index];
  if (posted == nullptr) return nullptr;
  std::optional<bool> same;
  const auto done = [&] {
    if (!same) same = alike(*posted);
    return same == true && complete(posted->requests[kData]);
  };
  if (!job_.poll(done, job_.timeout_ms()))
    return raise(FailureKind::kHang, "Hang", fmt::format("waits in {}", collective.text()));
  const bool has_data =
      collective.kind != CollectiveKind::kBarrier && collective.kind != CollectiveKind::kBroadcastInts;
  if (has_data) data_.end(collective, index);
  if (collective.kind != CollectiveKind::kBroadcastInts) posted.reset();
  return nullptr;
}

void MpiCommunicator::receive(std::vector<int64_t>& ints) {
  std::unique_ptr<Posted>& posted = posted_[wait_points().back().collective];
  ints = std::move(posted->ints);
  posted.reset();
}

}  // namespace zero3::sim
