// Streams of the GPU that this process works with, and events in them. Each belongs to one object.
#pragma once

#include <utility>

#include <cuda_runtime_api.h>

namespace zero3::sim {

class CudaEvent;

class CudaStream {
 public:
  CudaStream();
  ~CudaStream();
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  cudaStream_t get() const { return stream_; }
  // What is put into it from now on runs after the event; the host does not wait.
  void wait_for(const CudaEvent& event) const;

 private:
  cudaStream_t stream_ = nullptr;
};

class CudaEvent {
 public:
  // Recorded in `stream`, behind all that is in it by now.
  explicit CudaEvent(const CudaStream& stream);
  ~CudaEvent();
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  cudaEvent_t get() const { return event_; }
  // Whether the stream has come to it. Does not block. Throws BackendUnavailable where the stream has failed.
  bool done() const;

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace zero3::sim
