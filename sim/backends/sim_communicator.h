// The in-process backend's Communicator: a rank runs on its own and leaves the sequence of its collectives, and of the
// places where it waits for one.
//
// It assumes that all ranks agree until told otherwise: a Divergence says where this rank learns that they do not, and
// what it sees there. Matching the sequences (sim/rank_matching.h) finds the divergences; ranks then run again.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/behaviour.h"
#include "coordinator/communicator.h"
#include "sim/backends/collective.h"

namespace zero3::sim {

// A place where a rank can go on only once a collective is complete.
struct WaitPoint {
  size_t collective;  // index in the rank's own sequence
  size_t issued;      // how many collectives the rank has issued by then
};

struct Divergence {
  size_t wait_point;                             // index in the rank's own wait points
  std::optional<std::vector<int64_t>> of_rank0;  // a broadcast of ints: what rank 0 sent
  std::string text;                              // else: why the collective never completes
};

class SimCommunicator final : public Communicator {
 public:
  // `behaviour`: of the release, which decides the process groups.
  SimCommunicator(int rank, int world_size, const Behaviour& behaviour,
                  std::optional<Divergence> divergence = std::nullopt)
      : rank_(rank), world_size_(world_size), behaviour_(behaviour), divergence_(std::move(divergence)) {}

  int rank() const override { return rank_; }
  int parting_rank() const override {
    ranks_part_ = true;
    return rank_;
  }
  int world_size() const override { return world_size_; }
  Raised launch_all_gather(std::span<Param* const> params, Request& request) override;
  Raised wait(Request request) override;
  Raised broadcast(const Param& param, int source_rank) override;
  Raised broadcast_ints(std::span<const int64_t> own, std::vector<int64_t>& of_rank0) override;
  Raised reduce_scatter(std::span<Param* const> params) override;
  Raised meet(Meeting meeting) override;

  void begin_statement(size_t index) { statement_ = index; }
  const std::vector<Collective>& sequence() const { return sequence_; }
  const std::vector<WaitPoint>& wait_points() const { return wait_points_; }
  // Whether anything depended on the rank: ranks of the same program need not do the same.
  bool ranks_part() const { return ranks_part_; }

 private:
  void launch(Collective collective);
  // Waits for one of the sequence; the divergence's failure if this is where it happens and nothing is received.
  Raised wait_for(size_t collective);
  Raised issue(Collective collective);
  Collective over_params(CollectiveKind kind, std::span<Param* const> params) const;
  ProcessGroup group_of(Meeting meeting) const;

  int rank_;
  mutable bool ranks_part_ = false;
  int world_size_;
  Behaviour behaviour_;
  std::optional<Divergence> divergence_;
  size_t statement_ = 0;
  std::vector<Collective> sequence_;
  std::vector<WaitPoint> wait_points_;
  std::array<size_t, kProcessGroups> next_number_ = {};
};

}  // namespace zero3::sim
