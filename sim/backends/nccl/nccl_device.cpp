#include "sim/backends/nccl/nccl_device.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "sim/backend_unavailable.h"
#include "sim/backends/nccl/cuda_error.h"
#include "sim/bad_input.h"

namespace zero3::sim {
namespace {

constexpr int kFirstOfCuda13 = 13'000;
constexpr int kLeastCapabilityOfCuda13 = 75;  // V100, of 70, ends with CUDA 12

int gpu_count() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return count;
  throw BackendUnavailable(fmt::format(
      "--backend nccl finds no GPU here ({}): nvidia-smi -L lists those that the driver sees, a container is "
      "given them by docker run --gpus all",
      error == cudaSuccess ? "there are 0" : cuda_text(error)));
}

// A launcher that shows each process one GPU gives each its own.
int gpu_of(const MpiJob& job, int count) {
  if (job.place_on_machine() < count) return job.place_on_machine();
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (count == 1 && visible != nullptr && *visible != '\0') return 0;
  throw BadInput(fmt::format("no GPU for rank {}: its node has {} of them for {} ranks", job.rank(), count,
                             job.ranks_on_machine()),
                 "one GPU a rank: fewer ranks a node (mpirun --map-by ppr:N:node), or --backend mpi");
}

void check_capability(int gpu) {
  int major = 0;
  int minor = 0;
  int runtime = 0;
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu), "no compute capability");
  check_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, gpu), "no compute capability");
  check_cuda(cudaRuntimeGetVersion(&runtime), "no version");
  if (runtime < kFirstOfCuda13 || major * 10 + minor >= kLeastCapabilityOfCuda13) return;
  throw BackendUnavailable(fmt::format(
      "GPU {} has compute capability {}.{}, CUDA 13 wants 7.5: build with CUDA 12", gpu, major, minor));
}

}  // namespace

NcclDevice::NcclDevice(const MpiJob& job) : gpu_(gpu_of(job, gpu_count())) {
  check_cuda(cudaSetDevice(gpu_), "it cannot be used");
  check_capability(gpu_);
  streams_ = std::make_unique<Streams>();
  memory_.reset_peak();
}

void NcclDevice::connect(MpiJob& job) {
  for (std::unique_ptr<NcclGroup>& group : groups_) {
    const std::string id = job.from_rank0(job.rank() == 0 ? new_nccl_id() : "");
    group = std::make_unique<NcclGroup>(id, job.rank(), job.size());
    if (!job.poll([&] { return group->ready(); }, job.timeout_ms() + MpiJob::kGraceMs)) {
      throw BackendUnavailable(
          fmt::format("GPU {}: NCCL has not met the other ranks in {} s: NCCL_DEBUG=INFO says what it tries",
                      gpu_, (job.timeout_ms() + MpiJob::kGraceMs) / 1000));
    }
  }
}

void NcclDevice::disconnect(const MpiJob& job) {
  for (std::unique_ptr<NcclGroup>& group : groups_) {
    if (group == nullptr) continue;
    group->close();
    job.poll([&] { return group->closed(); }, job.timeout_ms());
    group.reset();
  }
}

void NcclDevice::abort() {
  for (std::unique_ptr<NcclGroup>& group : groups_) group.reset();
}

const CudaStream& NcclDevice::stream(CollectiveKind kind) const {
  switch (kind) {
    case CollectiveKind::kAllGather: return streams_->gather;
    case CollectiveKind::kReduceScatter: return streams_->reduce;
    default: return streams_->compute;
  }
}

}  // namespace zero3::sim
