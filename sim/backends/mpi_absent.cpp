// Stands where a build found no MPI.
#include "sim/backends/backend.h"

namespace zero3::sim {

std::unique_ptr<Backend> open_mpi_backend(const BackendOptions&) {
  throw BackendUnavailable(
      "this build has no MPI backend: install libopenmpi-dev and openmpi-bin (docker/install-deps.sh --mpi), "
      "then configure and build again");
}

}  // namespace zero3::sim
