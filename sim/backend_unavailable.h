// A backend that is asked for is not there, or cannot do here what is asked of it: real DeepSpeed, MPI.
#pragma once

#include <stdexcept>

namespace zero3::sim {

class BackendUnavailable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace zero3::sim
