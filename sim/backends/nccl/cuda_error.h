// What CUDA says went wrong, as a BackendUnavailable.
#pragma once

#include <string>

#include <cuda_runtime_api.h>

namespace zero3::sim {

// "cudaErrorNoDevice: no CUDA-capable device is detected".
std::string cuda_text(cudaError_t error);
// Throws BackendUnavailable, "GPU 1: WHAT: cuda_text", where the call has not succeeded.
void check_cuda(cudaError_t error, const char* what);

}  // namespace zero3::sim
