#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include <sys/random.h>

#include "tests/fake_cuda/fake_stream.h"
#include "tests/fake_cuda/fake_wire.h"
#include "tests/fake_cuda/nccl.h"

namespace zero3::fake_cuda {
namespace {

constexpr size_t kCommunicatorBytes = size_t{1} << 20;
enum Kind : uint32_t { kAllGather, kReduceScatter, kAllReduce, kBroadcast };

struct Fault {
  std::string kind;
  int ms = 0;
};

// What ZERO3_FAKE_NCCL has for this call of this rank.
Fault fault_of(int rank, int collective) {
  static const std::regex kForm(R"((\w+):rank=(\d+),collective=(\d+|all)(?:,ms=(\d+))?)");
  const char* text = std::getenv("ZERO3_FAKE_NCCL");
  const std::string faults = text == nullptr ? "" : text;
  for (auto found = std::sregex_iterator(faults.begin(), faults.end(), kForm);
       found != std::sregex_iterator(); ++found) {
    const std::smatch& one = *found;
    const bool here = one[3] == "all" || std::stoi(one[3]) == collective;
    if (std::stoi(one[2]) == rank && here) return {one[1], one[4].matched ? std::stoi(one[4]) : 0};
  }
  return {};
}

// One communicator, shared by its handle and by the work on streams that may outlive it.
struct Shared {
  Shared(std::string id, int own_rank, int of_ranks)
      : rank(own_rank), ranks(of_ranks), wire(std::move(id), own_rank, of_ranks, aborted) {}

  std::atomic<bool> aborted = false;
  int rank;
  int ranks;
  FakeWire wire;
  std::mutex mutex;
  std::condition_variable turns;
  uint64_t turn = 0;  // number of the call whose work may run
  ncclResult_t error = ncclInProgress;
  std::string last_error;

  void fail(ncclResult_t result, const std::string& text) {
    const std::lock_guard lock(mutex);
    error = result;
    last_error = text;
  }
  // Nothing ends here until ncclCommAbort().
  void hang() const {
    while (!aborted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
};

struct Work {
  Call call;
  const void* send = nullptr;
  void* receive = nullptr;
  size_t bytes = 0;  // that each rank gives to each
  Fault fault;
};

uint32_t* words_of(void* data) { return static_cast<uint32_t*>(data); }

void fill(std::vector<std::byte>& parcel, const void* from, size_t bytes) {
  const auto* data = static_cast<const std::byte*>(from);
  parcel.assign(data, data + bytes);
}

std::vector<FakeWire::Parcel> packed(const Work& work, const Shared& shared) {
  std::vector<FakeWire::Parcel> parcels(static_cast<size_t>(shared.ranks));
  for (size_t rank = 0; rank < parcels.size(); ++rank) {
    const bool broadcast = work.call.kind == kBroadcast;
    const size_t first = work.call.kind == kReduceScatter ? rank * work.bytes : 0;
    if (!broadcast || work.call.root == shared.rank)
      fill(parcels[rank].sent, static_cast<const std::byte*>(work.send) + first, work.bytes);
    if (!broadcast || work.call.root == static_cast<int64_t>(rank)) parcels[rank].received.resize(work.bytes);
  }
  parcels[static_cast<size_t>(shared.rank)].received = parcels[static_cast<size_t>(shared.rank)].sent;
  return parcels;
}

void unpack(const Work& work, const std::vector<FakeWire::Parcel>& parcels) {
  auto* to = static_cast<std::byte*>(work.receive);
  if (work.call.kind == kBroadcast) {
    const auto& sent = parcels[static_cast<size_t>(work.call.root)].received;
    std::copy(sent.begin(), sent.end(), to);
    return;
  }
  if (work.call.kind == kAllGather) {
    for (const FakeWire::Parcel& parcel : parcels)
      to = std::copy(parcel.received.begin(), parcel.received.end(), to);
    return;
  }
  std::vector<uint32_t> sum(work.bytes / sizeof(uint32_t), 0);
  for (const FakeWire::Parcel& parcel : parcels) {
    for (size_t i = 0; i < sum.size(); ++i) {
      uint32_t word = 0;
      std::memcpy(&word, parcel.received.data() + i * sizeof(word), sizeof(word));
      sum[i] += word;
    }
  }
  if (!sum.empty()) std::memcpy(to, sum.data(), work.bytes);
}

void run(Shared& shared, const Work& work) {
  if (work.fault.kind == "delay") std::this_thread::sleep_for(std::chrono::milliseconds(work.fault.ms));
  if (work.fault.kind == "stall") return shared.hang();
  if (work.fault.kind == "error") {
    shared.fail(ncclInternalError, "injected");
    return shared.hang();
  }
  std::vector<FakeWire::Parcel> parcels = packed(work, shared);
  const End end = shared.wire.exchange(work.call, parcels);
  if (end == End::kLost) shared.fail(ncclRemoteError, "a rank is gone");
  if (end != End::kDone) return shared.hang();
  unpack(work, parcels);
  if (work.fault.kind == "corrupt" && work.bytes > 0) words_of(work.receive)[0] ^= 1U << 20U;
}

// Calls on one communicator run in their order, on whatever streams.
void run_in_turn(Shared& shared, const Work& work) {
  std::unique_lock lock(shared.mutex);
  shared.turns.wait(lock, [&] { return shared.turn == work.call.number; });
  lock.unlock();
  run(shared, work);
  lock.lock();
  ++shared.turn;
  shared.turns.notify_all();
}

std::string hex(const char* bytes, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(bytes[i]));
    text += digits;
  }
  return text;
}

}  // namespace
}  // namespace zero3::fake_cuda

struct ncclComm {
  std::shared_ptr<zero3::fake_cuda::Shared> shared;
  std::thread joining;
  uint64_t calls = 0;
  void* memory = nullptr;
  // The last call: its work reaches its stream only once it has been asked for twice.
  std::optional<zero3::fake_cuda::Work> started;
  cudaStream_t stream = nullptr;
  int asked = 0;
  bool finalizing = false;
};

namespace zero3::fake_cuda {
namespace {

int calls_of_process = 0;

ncclResult_t start(ncclComm_t comm, Work work, cudaStream_t stream) {
  Shared& shared = *comm->shared;
  if (comm->started) return ncclInvalidUsage;  // the call before is in progress
  work.call.number = comm->calls++;
  work.fault = fault_of(shared.rank, calls_of_process++);
  if (work.fault.kind == "refuse") {
    shared.fail(ncclInvalidArgument, "this GPU has no such type");
    return ncclInvalidArgument;
  }
  comm->started = work;
  comm->stream = stream;
  comm->asked = 0;
  return ncclInProgress;
}

}  // namespace
}  // namespace zero3::fake_cuda

using namespace zero3::fake_cuda;

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
  }
  return "?";
}

const char* ncclGetLastError(ncclComm_t comm) {
  return comm == nullptr ? "" : comm->shared->last_error.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const ssize_t filled = getrandom(id->internal, sizeof(id->internal), 0);
  return filled == sizeof(id->internal) ? ncclSuccess : ncclInternalError;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidUsage;  // the fake has no other kind
  *comm = new ncclComm;
  if (cudaMalloc(&(*comm)->memory, kCommunicatorBytes) != cudaSuccess) return ncclInternalError;
  (*comm)->shared = std::make_shared<Shared>(hex(id.internal, 16), rank, ranks);
  (*comm)->joining = std::thread([shared = (*comm)->shared] {
    const bool joined = shared->wire.connect();
    const std::lock_guard lock(shared->mutex);
    shared->error = joined ? ncclSuccess : ncclInternalError;
  });
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  if (comm->started && ++comm->asked >= 2) {
    comm->stream->enqueue([shared = comm->shared, work = *comm->started] { run_in_turn(*shared, work); });
    comm->started.reset();
  }
  const std::lock_guard lock(comm->shared->mutex);
  *error = comm->shared->error;
  const bool busy = comm->started || (comm->finalizing && comm->shared->turn != comm->calls);
  if (*error == ncclSuccess && busy) *error = ncclInProgress;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  comm->finalizing = true;
  return ncclInProgress;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->shared->aborted = true;
  if (comm->joining.joinable()) comm->joining.join();
  cudaFree(comm->memory);
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) { return ncclCommAbort(comm); }

ncclResult_t ncclAllGather(const void* send, void* receive, size_t send_count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return start(comm,
               {{kAllGather, static_cast<uint32_t>(type), send_count}, send, receive, send_count * 4, {}},
               stream);
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t receive_count, ncclDataType_t type,
                               ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  return start(
      comm,
      {{kReduceScatter, static_cast<uint32_t>(type), receive_count}, send, receive, receive_count * 4, {}},
      stream);
}

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t,
                           ncclComm_t comm, cudaStream_t stream) {
  return start(comm, {{kAllReduce, static_cast<uint32_t>(type), count}, send, receive, count * 4, {}},
               stream);
}

ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return start(comm, {{kBroadcast, static_cast<uint32_t>(type), count, root}, send, receive, count * 4, {}},
               stream);
}
