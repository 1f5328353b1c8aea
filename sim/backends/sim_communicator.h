// The in-process backend's Communicator: a rank runs on its own and leaves the sequence of its collectives.
//
// It assumes that all ranks agree until told otherwise: a Divergence says at which collective this rank learns that
// they do not, and what it sees there. Matching the sequences (sim/simulate.h) finds the divergences; ranks then run
// again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/communicator.h"

namespace zero3::sim {

enum class CollectiveKind { kAllGather, kBroadcast, kBroadcastInts, kReduceScatter };

struct Collective {
  CollectiveKind kind = CollectiveKind::kAllGather;
  std::vector<int> ds_ids = {};         // of the params, in the collective's order
  std::vector<std::string> names = {};  // theirs
  int64_t shard_numel = 0;              // elements that each rank contributes
  std::vector<int64_t> ints = {};       // of a broadcast of ints
  int source_rank = -1;
  size_t statement = 0;  // index of the program's statement that issued it

  std::string text() const;
};

struct Divergence {
  size_t collective;                             // index in the rank's own sequence
  std::optional<std::vector<int64_t>> of_rank0;  // a broadcast of ints: what rank 0 sent
  std::string text;                              // else: why the collective never completes
};

class SimCommunicator final : public Communicator {
 public:
  SimCommunicator(int rank, int world_size, std::optional<Divergence> divergence = std::nullopt)
      : rank_(rank), world_size_(world_size), divergence_(std::move(divergence)) {}

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  Raised launch_all_gather(std::span<Param* const> params, Request& request) override;
  Raised wait(Request) override { return nullptr; }
  Raised broadcast(const Param& param, int source_rank) override;
  Raised broadcast_ints(std::span<const int64_t> own, std::vector<int64_t>& of_rank0) override;
  Raised reduce_scatter(std::span<Param* const> params) override;

  void begin_statement(size_t index) { statement_ = index; }
  const std::vector<Collective>& sequence() const { return sequence_; }

 private:
  // Appends it; the divergence's failure if this is where it happens and nothing is received.
  Raised issue(Collective collective);
  Collective over_params(CollectiveKind kind, std::span<Param* const> params) const;

  int rank_;
  int world_size_;
  std::optional<Divergence> divergence_;
  size_t statement_ = 0;
  std::vector<Collective> sequence_;
};

}  // namespace zero3::sim
