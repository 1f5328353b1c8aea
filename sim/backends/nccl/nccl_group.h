// NCCL's communicator of one process group. It never blocks the host (ncclConfig_t::blocking = 0): a call may still be
// in progress when it returns, and must be over before the next.
#pragma once

#include <string>

#include <nccl.h>

namespace zero3::sim {

// The id that rank 0 makes for a communicator and all others join it with, as bytes.
std::string new_nccl_id();

class NcclGroup {
 public:
  // Begins to join the others; ready() says when that is done.
  NcclGroup(const std::string& id, int rank, int world_size);
  // Aborts what is not over, unless it was closed.
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  ncclComm_t get() const { return comm_; }
  // Takes what a call on get() returned. Throws BackendUnavailable, with `what` it was to do, where it failed.
  void called(ncclResult_t result, const std::string& what);
  // Whether the last call is over. Throws BackendUnavailable where it, or anything on the GPUs since, has failed.
  bool ready();

  // Leaves the others in peace: all have to, once nothing is in progress. close() begins it, closed() says when it is
  // over.
  void close();
  bool closed();
  // Stops all that runs on it, on this rank.
  void abort();

 private:
  [[noreturn]] void fail(ncclResult_t result) const;

  ncclComm_t comm_ = nullptr;
  std::string what_ = "to set up NCCL";
};

}  // namespace zero3::sim
