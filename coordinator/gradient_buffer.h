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
  // v1: what comes from now on finds an empty buffer. What is in it takes part in the coming step all the same.
  void drop();
  // The step at the end of the accumulation cycle; `overflow`: what arrived in the cycle had overflowed.
  void settle(bool overflow);
  // The optimizer updates the weights with what the buffer holds. Those it spoils make gradients that overflow.
  void update_weights() { spoiled_.insert(overflowed_.begin(), overflowed_.end()); }

  // Whether nothing has arrived since the step.
  bool is_first_of_cycle() const { return first_of_cycle_; }
  // After settle(): whether anything in the buffer has overflowed,
  bool overflowed() const { return !overflowed_.empty(); }
  // and whether any of it arrived in the cycle.
  bool arrived_overflowed() const { return arrived_overflowed_; }

 private:
  std::vector<int64_t> arrived_;  // ds_ids, since the step, as far as they are in the buffer
  std::set<int64_t> overflowed_;  // of partitions in the buffer
  std::set<int64_t> spoiled_;     // of weights
  bool first_of_cycle_ = true;
  bool any_arrived_ = false;
  bool added_to_overflowed_ = false;
  bool spoiled_took_part_ = false;
  bool arrived_overflowed_ = false;
};

}  // namespace zero3
