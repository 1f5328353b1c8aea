// One rank's GPU, its streams and its NCCL communicators: for all runs of a job.
#pragma once

#include <array>
#include <functional>
#include <memory>

#include "sim/backends/collective.h"
#include "sim/backends/mpi/mpi_job.h"
#include "sim/backends/nccl/cuda_stream.h"
#include "sim/backends/nccl/memory_pool.h"
#include "sim/backends/nccl/nccl_group.h"

namespace zero3::sim {

class NcclDevice {
 public:
  // Takes the GPU of this rank's place on its node. Throws BackendUnavailable where there is none that this build can
  // use, BadInput where there are fewer than ranks.
  explicit NcclDevice(const MpiJob& job);
  NcclDevice(const NcclDevice&) = delete;
  NcclDevice& operator=(const NcclDevice&) = delete;

  // Joins the other ranks' GPUs, once; all ranks have to. Throws BackendUnavailable.
  void connect(MpiJob& job);
  // Leaves them again.
  void disconnect(const MpiJob& job);
  // Stops everything that runs on it, and leaves the others to find out.
  void abort();

  int gpu() const { return gpu_; }
  // Where DeepSpeed puts them: all-gathers beside the computation, the reduction of gradients beside both.
  const CudaStream& stream(CollectiveKind kind) const;
  const CudaStream& compute_stream() const { return streams_->compute; }
  NcclGroup& group(ProcessGroup group) { return *groups_.at(static_cast<size_t>(group)); }
  MemoryPool& memory() { return memory_; }
  MemoryPool& pinned() { return pinned_; }

 private:
  struct Streams {
    CudaStream compute;  // __current_stream
    CudaStream gather;   // __allgather_stream
    CudaStream reduce;   // reduce_and_partition_stream
  };

  int gpu_ = 0;
  std::unique_ptr<Streams> streams_;
  MemoryPool memory_{MemoryKind::kDevice};
  MemoryPool pinned_{MemoryKind::kPinned};
  std::array<std::unique_ptr<NcclGroup>, kProcessGroups> groups_;
};

}  // namespace zero3::sim
