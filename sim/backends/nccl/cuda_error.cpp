#include "sim/backends/nccl/cuda_error.h"

#include <fmt/format.h>

#include "sim/backend_unavailable.h"

namespace zero3::sim {

std::string cuda_text(cudaError_t error) {
  return fmt::format("{}: {}", cudaGetErrorName(error), cudaGetErrorString(error));
}

void check_cuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  int gpu = -1;
  const bool known = cudaGetDevice(&gpu) == cudaSuccess;
  throw BackendUnavailable(
      fmt::format("{}{}: {}", known ? fmt::format("GPU {}: ", gpu) : "", what, cuda_text(error)));
}

}  // namespace zero3::sim
