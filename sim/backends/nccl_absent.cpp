// Stands where a build found no NCCL, or no MPI to start its ranks with.
#include "sim/backends/backend.h"

namespace zero3::sim {

std::unique_ptr<Backend> open_nccl_backend(const BackendOptions&) {
  throw BackendUnavailable(
      "this build has no NCCL backend: it needs Open MPI, the CUDA runtime and NCCL (docker/install-deps.sh "
      "--mpi, "
      "then --cuda12 or --cuda13), then configure and build again");
}

}  // namespace zero3::sim
