// Collectives between threads: each is complete as soon as every rank has issued its like, and never if one has issued
// another. Ranks that all wait for what cannot come are told so: no clock decides.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "sim/backends/moved_data.h"

namespace zero3::sim {

class RankExchange {
 public:
  explicit RankExchange(int world_size) : world_size_(static_cast<size_t>(world_size)) {}

  // `data`: the rank's; its begin() is called, and its reduce() by whichever rank comes last. Does not block.
  void issue(int rank, const Collective& collective, MovedData& data);
  // False: it can never complete. Called once a collective and rank.
  bool wait(const Collective& collective);
  // Of a complete broadcast of ints.
  std::vector<int64_t> ints_of_rank0(const Collective& collective);
  // The rank issues nothing more.
  void leave();

 private:
  struct Contribution {
    Collective collective;
    Buffers buffers = {};
    MovedData* data = nullptr;
  };
  struct Slot {
    std::map<int, Contribution> by_rank = {};
    size_t waiting = 0;  // ranks
    bool complete = false;
  };
  using Key = std::pair<ProcessGroup, size_t>;

  static Key key(const Collective& collective) { return {collective.group, collective.number}; }
  bool all_alike(const Slot& slot) const;
  void exchange(Slot& slot) const;
  void check_stuck();

  size_t world_size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, Slot> slots_;
  size_t waiting_ = 0;
  size_t left_ = 0;
  bool stuck_ = false;  // everyone who is there waits
};

}  // namespace zero3::sim
