// The in-process backend's Communicator: a rank runs on its own and leaves the sequence of its collectives, and of the
// places where it waits for one.
//
// It assumes that all ranks agree until told otherwise: a Divergence says where this rank learns that they do not, and
// what it sees there. Matching the sequences (sim/rank_matching.h) finds the divergences; ranks then run again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/backends/rank_communicator.h"

namespace zero3::sim {

struct Divergence {
  size_t wait_point;                             // index in the rank's own wait points
  std::optional<std::vector<int64_t>> of_rank0;  // a broadcast of ints: what rank 0 sent
  std::string text;                              // else: why the collective never completes
};

class SimCommunicator final : public RankCommunicator {
 public:
  SimCommunicator(int rank, int world_size, const Behaviour& behaviour,
                  std::optional<Divergence> divergence = std::nullopt)
      : RankCommunicator(rank, world_size, behaviour), divergence_(std::move(divergence)) {}

 private:
  Raised finish() override;
  void receive(std::vector<int64_t>& ints) override;
  bool parts_here() const;

  std::optional<Divergence> divergence_;
};

}  // namespace zero3::sim
