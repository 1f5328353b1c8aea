// What has overflowed in the optimizer's flat buffer of gradients, which keeps what no later backward overwrites.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

namespace zero3 {

struct Param;

class GradientBuffer {
 public:
  // The gradients that one backward has reduced. Those of the first since the step overwrite what the buffer holds
  // of their params, those of later ones are added to it.
  void arrive(const std::vector<Param*>& gradients);
  // The step at the end of the accumulation cycle; `overflow`: what arrived in the cycle had overflowed.
  void settle(bool overflow);
  // The optimizer updates the weights with what the buffer holds. Those it spoils make gradients that overflow.
  void update_weights() { spoiled_.insert(overflowed_.begin(), overflowed_.end()); }

  // After settle(): whether anything in the buffer has overflowed,
  bool overflowed() const { return !overflowed_.empty(); }
  // and whether any of it arrived in the cycle.
  bool arrived_overflowed() const { return arrived_overflowed_; }

 private:
  struct Arrived {
    Param* param;
    bool overwrites;
  };

  std::vector<Arrived> arrived_;  // since the step
  std::set<int64_t> overflowed_;  // ds_ids of partitions in the buffer
  std::set<int64_t> spoiled_;     // of weights
  bool first_of_cycle_ = true;
  bool spoiled_took_part_ = false;
  bool arrived_overflowed_ = false;
};

}  // namespace zero3
