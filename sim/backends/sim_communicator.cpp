#include "sim/backends/sim_communicator.h"

namespace zero3::sim {

bool SimCommunicator::parts_here() const {
  return divergence_ && divergence_->wait_point + 1 == wait_points().size();
}

Raised SimCommunicator::finish() {
  if (!parts_here() || divergence_->of_rank0) return nullptr;
  return raise(FailureKind::kHang, "Hang", divergence_->text);
}

void SimCommunicator::receive(std::vector<int64_t>& ints) {
  if (parts_here()) ints = *divergence_->of_rank0;
}

}  // namespace zero3::sim
