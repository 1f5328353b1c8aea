#include "coordinator/gradient_buffer.h"

#include "coordinator/param.h"

namespace zero3 {

void GradientBuffer::arrive(const std::vector<Param*>& gradients) {
  for (const Param* param : gradients) {
    if (param->ds_numel == 0) continue;
    any_arrived_ = true;
    arrived_.push_back(param->ds_id);
    spoiled_took_part_ = spoiled_took_part_ || (!spoiled_.empty() && spoiled_.contains(param->ds_id));
    if (overflowed_.empty()) continue;
    if (first_of_cycle_)
      overflowed_.erase(param->ds_id);
    else
      added_to_overflowed_ = added_to_overflowed_ || overflowed_.contains(param->ds_id);
  }
  first_of_cycle_ = false;
}

void GradientBuffer::drop() {
  arrived_.clear();
  overflowed_.clear();
}

void GradientBuffer::settle(bool overflow) {
  overflow = overflow || spoiled_took_part_;
  if (overflow) overflowed_.insert(arrived_.begin(), arrived_.end());
  arrived_overflowed_ = added_to_overflowed_ || (overflow && any_arrived_);
  arrived_.clear();
  first_of_cycle_ = true;
  any_arrived_ = added_to_overflowed_ = spoiled_took_part_ = false;
}

}  // namespace zero3
