#include "sim/backends/nccl/memory_pool.h"

#include <algorithm>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "sim/backend_unavailable.h"
#include "sim/backends/nccl/cuda_error.h"

namespace zero3::sim {
namespace {

constexpr size_t kAlignment = 512;  // cudaMalloc's own

size_t rounded(size_t bytes) {
  return (std::max<size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
}

size_t free_bytes() {
  size_t free = 0;
  size_t total = 0;
  return cudaMemGetInfo(&free, &total) == cudaSuccess ? free : 0;
}

}  // namespace

MemoryPool::~MemoryPool() { free_kept(); }

void MemoryPool::free_kept() {
  for (const auto& [bytes, blocks] : kept_) {
    for (void* block : blocks)
      static_cast<void>(kind_ == MemoryKind::kDevice ? cudaFree(block) : cudaFreeHost(block));
  }
  kept_.clear();
}

void* MemoryPool::allocate(size_t bytes) {
  void* block = nullptr;
  const auto attempt = [&] {
    return kind_ == MemoryKind::kDevice ? cudaMalloc(&block, bytes) : cudaMallocHost(&block, bytes);
  };
  cudaError_t error = attempt();
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // else it is told again by a later call
    free_kept();
    error = attempt();
  }
  if (error == cudaErrorMemoryAllocation) {
    int gpu = 0;
    cudaGetDevice(&gpu);
    throw BackendUnavailable(
        kind_ == MemoryKind::kDevice
            ? fmt::format("out of memory on GPU {}: {} bytes wanted, {} free", gpu, bytes, free_bytes())
            : fmt::format("out of pinned host memory beside GPU {}: {} bytes wanted", gpu, bytes));
  }
  check_cuda(error, "no memory");
  if (kind_ == MemoryKind::kDevice) least_free_ = std::min(least_free_, free_bytes());
  return block;
}

std::byte* MemoryPool::take(size_t bytes) {
  const size_t size = rounded(bytes);
  void* block = nullptr;
  if (const auto kept = kept_.find(size); kept != kept_.end() && !kept->second.empty()) {
    block = kept->second.back();
    kept->second.pop_back();
  } else {
    block = allocate(size);
  }
  used_bytes_ += static_cast<int64_t>(bytes);
  peak_bytes_ = std::max(peak_bytes_, used_bytes_);
  return static_cast<std::byte*>(block);
}

void MemoryPool::give_back(std::byte* data, size_t bytes) {
  kept_[rounded(bytes)].push_back(data);
  used_bytes_ -= static_cast<int64_t>(bytes);
}

int64_t MemoryPool::driver_peak_bytes() {
  least_free_ = std::min(least_free_, free_bytes());
  return static_cast<int64_t>(free_at_start_ - least_free_);
}

void MemoryPool::reset_peak() {
  if (free_at_start_ == 0) free_at_start_ = least_free_ = free_bytes();
  peak_bytes_ = used_bytes_;
}

}  // namespace zero3::sim
