#include "sim/backends/nccl/cuda_stream.h"

#include "sim/backends/nccl/cuda_error.h"

namespace zero3::sim {

// Apart from the legacy default stream, with which all others wait for one another.
CudaStream::CudaStream() {
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "no stream");
}

CudaStream::~CudaStream() { cudaStreamDestroy(stream_); }

void CudaStream::wait_for(const CudaEvent& event) const {
  check_cuda(cudaStreamWaitEvent(stream_, event.get(), 0), "a stream cannot wait");
}

CudaEvent::CudaEvent(const CudaStream& stream) {
  check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "no event");
  const cudaError_t recorded = cudaEventRecord(event_, stream.get());
  if (recorded != cudaSuccess) cudaEventDestroy(event_);
  check_cuda(recorded, "an event cannot be recorded");
}

CudaEvent::~CudaEvent() { cudaEventDestroy(event_); }

bool CudaEvent::done() const {
  const cudaError_t state = cudaEventQuery(event_);
  if (state == cudaErrorNotReady) return false;
  check_cuda(state, "a stream failed");
  return true;
}

}  // namespace zero3::sim
