// Memory that the rank's GPU works with. What is given back is kept for the next of its size: cudaMalloc and cudaFree
// stop the streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace zero3::sim {

enum class MemoryKind {
  kDevice,  // the GPU's own
  kPinned,  // the host's, which the GPU copies from and to while the host goes on
};

class MemoryPool {
 public:
  explicit MemoryPool(MemoryKind kind) : kind_(kind) {}
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // Throws BackendUnavailable: "out of memory on GPU 1: 4096 bytes wanted, 512 free".
  std::byte* take(size_t bytes);
  // `bytes`: as taken. Whatever a stream still does with it has to be over.
  void give_back(std::byte* data, size_t bytes);

  // Most that was taken at one time since the last reset.
  int64_t peak_bytes() const { return peak_bytes_; }
  // And most that the driver missed of the memory that was free when reset_peak() was first called.
  int64_t driver_peak_bytes();
  void reset_peak();

 private:
  void* allocate(size_t bytes);
  void free_kept();

  MemoryKind kind_;
  std::map<size_t, std::vector<void*>> kept_;  // by size
  int64_t used_bytes_ = 0;
  int64_t peak_bytes_ = 0;
  size_t free_at_start_ = 0;
  size_t least_free_ = 0;
};

// A piece of a pool, given back at its end. Empty: of no bytes.
class PoolBuffer {
 public:
  PoolBuffer() = default;
  PoolBuffer(MemoryPool& pool, size_t bytes) : pool_(&pool), data_(pool.take(bytes)), bytes_(bytes) {}
  PoolBuffer(PoolBuffer&& other) noexcept { *this = std::move(other); }
  PoolBuffer& operator=(PoolBuffer&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~PoolBuffer() {
    if (data_ != nullptr) pool_->give_back(data_, bytes_);
  }

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  MemoryPool* pool_ = nullptr;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace zero3::sim
