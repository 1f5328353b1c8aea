// Connections of one rank of the fake NCCL to all others, and what they exchange.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace zero3::fake_cuda {

// What goes ahead of the data: ranks that say different things never understand one another.
struct Call {
  uint32_t kind = 0;
  uint32_t type = 0;
  uint64_t count = 0;
  int64_t root = -1;
  uint64_t number = 0;

  bool operator==(const Call&) const = default;
};

enum class End {
  kDone,
  kLost,       // a rank is gone
  kDifferent,  // a rank called something else
  kAborted,
};

class FakeWire {
 public:
  FakeWire(std::string id, int rank, int ranks, const std::atomic<bool>& aborted)
      : id_(std::move(id)), rank_(rank), aborted_(aborted), sockets_(static_cast<size_t>(ranks), -1) {}
  ~FakeWire();
  FakeWire(const FakeWire&) = delete;
  FakeWire& operator=(const FakeWire&) = delete;

  // Blocks until all ranks of this id are connected. False: aborted.
  bool connect();

  struct Parcel {
    std::vector<std::byte> sent;
    std::vector<std::byte> received;  // as long as it is to be
  };
  // Sends each rank its parcel of data, and fills in what it sends. `parcels`: by rank, the own one is left alone.
  End exchange(const Call& call, std::vector<Parcel>& parcels);

 private:
  int connected_to(int rank) const;

  std::string id_;
  int rank_;
  const std::atomic<bool>& aborted_;
  std::vector<int> sockets_;  // by rank
  int listener_ = -1;
};

}  // namespace zero3::fake_cuda
