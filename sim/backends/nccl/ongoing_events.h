// Events that a rank lets happen by themselves, a few at a time: DeepSpeed's __ongoing_fetch_events of all-gathers and
// param_reduce_events of reductions, which keep the host from queueing more than the GPU has memory for
// (partitioned_param_coordinator.py and stage3.py, v0.6.2 and later).
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>

#include "sim/backends/nccl/cuda_stream.h"

namespace zero3::sim {

class OngoingEvents {
 public:
  // Before one more is waited for: forgets those that happened; where more than two have not, `wait` is called with the
  // oldest, as the release blocks its host on it.
  template <class Wait>
  void make_room(const Wait& wait) {
    while (!events_.empty() && events_.front()->done()) events_.pop_front();
    if (events_.size() > kMaxOngoing) {
      wait(*events_.front());
      events_.pop_front();
      ++blocked_;
    }
    peak_ = std::max(peak_, static_cast<int64_t>(events_.size()));
  }
  void add(std::shared_ptr<const CudaEvent> event) { events_.push_back(std::move(event)); }

  // Most that were outstanding once there was room.
  int64_t peak() const { return peak_; }
  // How often there was none.
  int64_t blocked() const { return blocked_; }

 private:
  static constexpr size_t kMaxOngoing = 2;  // DeepSpeed's __max_ongoing_fetch_events, max_param_reduce_events

  std::deque<std::shared_ptr<const CudaEvent>> events_;
  int64_t peak_ = 0;
  int64_t blocked_ = 0;
};

}  // namespace zero3::sim
