// The collectives that a rank asks for. The coordinator sees other ranks through this interface alone.
//
// A call that can never complete (a rank that does not come, a dead peer) hands back a Raised of kind kHang or whatever
// the backend's own error is; the coordinator passes it up like any failure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "coordinator/failure.h"

namespace zero3 {

// A collective over a few values that no decision here reads, or over none: what counts is that every rank comes.
enum class Meeting {
  kOverflowCheck,    // all-reduce of whether any rank's gradients overflowed
  kGradientNorm,     // all-reduce of the squared norms
  kCheckpointDone,   // barriers of save_checkpoint: around all it does
  kCheckpointFiles,  // and one for each rank's turn to make its folder
  kCheckpointTag,    // all-reduces of the tag's hash, least and greatest
};

class Communicator {
 public:
  using Request = int64_t;  // of a launched all-gather; -1: none

  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  // The same, where what happens next depends on it: ranks of one program part there.
  virtual int parting_rank() const { return rank(); }
  virtual int world_size() const = 0;

  // Launches one collective over the shards of `params`, in this order. Does not block.
  virtual Raised launch_all_gather(std::span<Param* const> params, Request& request) = 0;
  // Blocks until a launched all-gather is complete. Called once a request.
  virtual Raised wait(Request request) = 0;
  // dist.broadcast of one full parameter from `source_rank`.
  virtual Raised broadcast(const Param& param, int source_rank) = 0;
  // dist.broadcast of ints from rank 0: every rank gives its own list and receives rank 0's.
  virtual Raised broadcast_ints(std::span<const int64_t> own, std::vector<int64_t>& of_rank0) = 0;
  // The gradients of one backward, reduced to their owners, in this order.
  virtual Raised reduce_scatter(std::span<Param* const> params) = 0;
  // By default nobody meets: a backend that looks for ranks that differ has to know.
  virtual Raised meet(Meeting) { return nullptr; }
};

}  // namespace zero3
