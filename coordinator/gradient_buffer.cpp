#include "coordinator/gradient_buffer.h"

#include "coordinator/param.h"

namespace zero3 {

void GradientBuffer::arrive(const std::vector<Param*>& gradients) {
  for (Param* param : gradients) {
    if (param->ds_numel == 0) continue;
    arrived_.push_back({param, first_of_cycle_});
    spoiled_took_part_ = spoiled_took_part_ || (!spoiled_.empty() && spoiled_.contains(param->ds_id));
  }
  first_of_cycle_ = false;
}

void GradientBuffer::settle(bool overflow) {
  overflow = overflow || spoiled_took_part_;
  arrived_overflowed_ = false;
  if (overflow || !overflowed_.empty()) {
    for (const Arrived& gradient : arrived_) {
      if (overflow)
        overflowed_.insert(gradient.param->ds_id);
      else if (gradient.overwrites)
        overflowed_.erase(gradient.param->ds_id);
      arrived_overflowed_ = arrived_overflowed_ || overflowed_.contains(gradient.param->ds_id);
    }
  }
  arrived_.clear();
  first_of_cycle_ = true;
  spoiled_took_part_ = false;
}

}  // namespace zero3
