#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "tests/fake_cuda/cuda_runtime_api.h"
#include "tests/fake_cuda/fake_stream.h"

namespace zero3::fake_cuda {
namespace {

constexpr size_t kMemoryBytes = size_t{1} << 30;
// What has been allocated, and what has been freed, is not what anyone wrote.
constexpr int kFresh = 0xcd;
constexpr int kFreed = 0xdd;

int number_of(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

class FakeGpu {
 public:
  void* allocate(size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (bytes > capacity() - used_) return nullptr;
    used_ += bytes;
    void* block = std::malloc(bytes);
    blocks_[block] = bytes;
    return std::memset(block, kFresh, bytes);
  }
  bool free(void* block) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(block);
    if (found == blocks_.end()) return false;
    used_ -= found->second;
    std::memset(block, kFreed, found->second);
    std::free(block);
    blocks_.erase(found);
    return true;
  }
  size_t capacity() const {
    const char* text = std::getenv("ZERO3_FAKE_CUDA_MEMORY");
    if (text == nullptr) return kMemoryBytes;
    const std::string words = text;
    const size_t colon = words.find(':');
    if (colon == std::string::npos) return std::stoul(words);
    return std::stoi(words.substr(0, colon)) == number ? std::stoul(words.substr(colon + 1)) : kMemoryBytes;
  }
  size_t free_bytes() {
    const std::lock_guard lock(mutex_);
    return capacity() - used_;
  }

  int number = 0;

 private:
  std::mutex mutex_;
  std::map<void*, size_t> blocks_;
  size_t used_ = 0;
};

FakeGpu& gpu() {
  static FakeGpu the_gpu;
  return the_gpu;
}

int gpu_count() { return number_of("ZERO3_FAKE_CUDA_GPUS", 8); }

}  // namespace
}  // namespace zero3::fake_cuda

using zero3::fake_cuda::gpu;
using zero3::fake_cuda::Occurrence;

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorNotReady: return "cudaErrorNotReady";
  }
  return "?";
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    default: return "an error of the fake";
  }
}

cudaError_t cudaGetLastError() { return cudaSuccess; }

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = zero3::fake_cuda::number_of("ZERO3_FAKE_CUDA_VERSION", 12000);
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = zero3::fake_cuda::gpu_count();
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaGetDevice(int* device) {
  *device = gpu().number;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (device >= zero3::fake_cuda::gpu_count()) return cudaErrorInvalidDevice;
  gpu().number = device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, enum cudaDeviceAttr attribute, int) {
  const int capability = zero3::fake_cuda::number_of("ZERO3_FAKE_CUDA_CAPABILITY", 80);
  *value = attribute == cudaDevAttrComputeCapabilityMajor ? capability / 10 : capability % 10;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  *pointer = gpu().allocate(bytes);
  return *pointer == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t cudaFree(void* pointer) { return gpu().free(pointer) ? cudaSuccess : cudaErrorInvalidValue; }

cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  *pointer = std::malloc(bytes);
  std::memset(*pointer, zero3::fake_cuda::kFresh, bytes);
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* pointer) {
  std::free(pointer);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  *free_bytes = gpu().free_bytes();
  *total_bytes = gpu().capacity();
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, enum cudaMemcpyKind,
                            cudaStream_t stream) {
  stream->enqueue([=] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, enum cudaMemcpyKind, cudaStream_t stream) {
  stream->enqueue([=] {
    for (size_t row = 0; row < height; ++row)
      std::memcpy(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch,
                  width);
  });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const auto end = std::make_shared<Occurrence>();
  stream->enqueue([end] { end->happen(); });
  end->wait();
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  stream->enqueue([record = event->last_record] { record->wait(); });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event->last_record = std::make_shared<Occurrence>();
  stream->enqueue([record = event->last_record] { record->happen(); });
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return event->last_record->happened() ? cudaSuccess : cudaErrorNotReady;
}
