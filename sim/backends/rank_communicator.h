// What every backend's Communicator is made of: it turns what the coordinator asks for into collectives, in the process
// groups of the release, and keeps their sequence and the places where the rank waits for one. How data moves, and what
// a wait comes to, is the backend's.
#pragma once

#include <array>
#include <cstdint>
#include <span>
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

class RankCommunicator : public Communicator {
 public:
  // `behaviour`: of the release, which decides the process groups.
  RankCommunicator(int rank, int world_size, const Behaviour& behaviour)
      : rank_(rank), world_size_(world_size), behaviour_(behaviour) {}

  int rank() const final { return rank_; }
  int parting_rank() const final {
    ranks_part_ = true;
    return rank_;
  }
  int world_size() const final { return world_size_; }
  Raised launch_all_gather(std::span<Param* const> params, Request& request) final;
  Raised wait(Request request) final;
  Raised broadcast(const Param& param, int source_rank) final;
  Raised broadcast_ints(std::span<const int64_t> own, std::vector<int64_t>& of_rank0) final;
  Raised reduce_scatter(std::span<Param* const> params) final;
  Raised meet(Meeting meeting) final;

  void begin_statement(size_t index) { statement_ = index; }
  const std::vector<Collective>& sequence() const { return sequence_; }
  const std::vector<WaitPoint>& wait_points() const { return wait_points_; }
  // Whether anything depended on the rank: ranks of the same program need not do the same.
  bool ranks_part() const { return ranks_part_; }

 protected:
  // The last of the sequence was issued; must not block. Nothing is ever issued in a world of one rank.
  virtual Raised start() { return nullptr; }
  // The rank needs the end of the collective that its last wait point names.
  virtual Raised finish() = 0;
  // What rank 0 sent, once a broadcast of ints is finished; `ints` are the rank's own.
  virtual void receive(std::vector<int64_t>& ints) = 0;

 private:
  Raised launch(Collective collective);
  Raised wait_for(size_t collective);
  Raised issue(Collective collective);
  Collective over_params(CollectiveKind kind, std::span<Param* const> params) const;
  ProcessGroup group_of(Meeting meeting) const;

  int rank_;
  mutable bool ranks_part_ = false;
  int world_size_;
  Behaviour behaviour_;
  size_t statement_ = 0;
  std::vector<Collective> sequence_;
  std::vector<WaitPoint> wait_points_;
  std::array<size_t, kProcessGroups> next_number_ = {};
};

}  // namespace zero3::sim
