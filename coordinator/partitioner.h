// Gathering and partitioning of params: what zero.Init puts on every Parameter (partition_parameters.py).
//
// Launching sets INFLIGHT, waiting AVAILABLE, partitioning NOT_AVAILABLE. A coalesced handle flips all its params at
// the first wait; one that holds a handle for each param (stage3_allgather_sequential) flips them at every wait up to
// v0.19.6, those too that were partitioned meanwhile (DeepSpeed#8486).
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "coordinator/model.h"
#include "coordinator/runtime.h"

namespace zero3 {

// One launched all-gather: AllGatherHandle, AllGatherCoalescedHandle and their NoGather forms, or, with a request for
// each param, MultipleAllGatherHandles.
struct AllGatherHandle {
  std::vector<Param*> params;                   // in the collective's order
  std::vector<Communicator::Request> requests;  // empty: nothing to wait for
  bool complete = false;
  int references = 0;  // registry entries that still hold it
};

class Partitioner {
 public:
  explicit Partitioner(Runtime& runtime) : runtime_(runtime) {}

  // param.all_gather_coalesced(params): asynchronous, sorted by ds_id. Raises if one is not NOT_AVAILABLE.
  // `references` is how many times the handle will be waited on.
  Raised launch(std::span<Param* const> params, Reason reason, const Module* module,
                AllGatherHandle*& handle);
  // v1's asynchronous all_gather: one collective a param, in the order given. Skips all but NOT_AVAILABLE ones.
  Raised launch_singly(std::span<Param* const> params, Reason reason, const Module* module,
                       std::vector<AllGatherHandle*>& handles);
  // handle.wait(), and one reference less.
  Raised wait(AllGatherHandle& handle);
  // param.all_gather(params), synchronous: gathers the NOT_AVAILABLE ones, passes over the others.
  Raised all_gather(std::span<Param* const> params, Reason reason, const Module* module = nullptr);
  // param.partition(params): raises CP for one in flight and FREE for an active one.
  Raised partition(std::span<Param* const> params, Reason reason);

 private:
  Raised gathered_twice(Param& param);
  AllGatherHandle& new_handle(std::span<Param* const> params);
  Raised request(AllGatherHandle& handle, bool singly);
  Raised wait_for_each(AllGatherHandle& handle);
  Raised wait_for_all(AllGatherHandle& handle);
  Raised partition_one(Param& param);
  void make_whole(Param& param, bool shares_partition = false);
  Raised free_param(Param& param);

  Runtime& runtime_;
  std::deque<AllGatherHandle> handles_;
  std::vector<AllGatherHandle*> free_handles_;
  std::vector<Param*> scratch_;
};

}  // namespace zero3
