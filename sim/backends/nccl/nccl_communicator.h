// A rank's collectives over NCCL, on the streams and with the waits of the release: all-gathers run on a stream of
// their own; a wait lets the computation's stream wait and not the host, but for what the release lets it wait for.
//
// NCCL does not check what other ranks issue: where kinds or sizes differ it hangs or takes one's bytes for another's,
// and its communicator is lost. So each rank tells the others by MPI what it issues, and a collective goes to NCCL once
// all have issued the same. One that is not met by its like never goes there, and who waits for it times out, as with
// NCCL. What NCCL has begun therefore ends on all ranks, and its communicators serve for all runs of a job.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <mpi.h>

#include "sim/backends/backend.h"
#include "sim/backends/device_usage.h"
#include "sim/backends/moved_data.h"
#include "sim/backends/mpi/collective_header.h"
#include "sim/backends/mpi/mpi_communicator.h"
#include "sim/backends/mpi/mpi_job.h"
#include "sim/backends/nccl/memory_pool.h"
#include "sim/backends/nccl/nccl_device.h"
#include "sim/backends/nccl/ongoing_events.h"
#include "sim/backends/rank_communicator.h"

namespace zero3::sim {

class NcclCommunicator final : public RankCommunicator {
 public:
  // What it throws, beside what is a failure of DeepSpeed's, is a BackendUnavailable: memory, CUDA, NCCL, a collective
  // that does not end. The run is then over.
  NcclCommunicator(const MpiJob& job, const MpiGroups& groups, NcclDevice& device, const Behaviour& behaviour,
                   MovedData& data, std::optional<KillFault> fault);

  // The rank has partitioned the param: its memory is free again.
  void released(int ds_id);
  // Once the rank's program has ended: begins what the others still wait for, and waits until all that was begun has
  // arrived. All ranks have to come. False: they have not, in the time that their collectives may take.
  bool finish_all();
  // Whether MPI may still write into this object: it must not be destroyed.
  bool has_open_collectives();
  DeviceUsage usage() const;

 private:
  enum class Stage {
    kAnnounced,   // the other ranks are told
    kBegun,       // all have issued the same: it is NCCL's
    kNeverMeets,  // one has issued something else
  };
  // A collective on its way.
  struct Transfer {
    Stage stage = Stage::kAnnounced;
    CollectiveHeader own = {};
    std::vector<CollectiveHeader> all = {};  // of all ranks
    MPI_Request headers = MPI_REQUEST_NULL;
    std::vector<int64_t> ints = {};  // of a broadcast of ints
    Buffers host = {};               // the data's own; on a device if it is
    PoolBuffer send = {};            // on the device
    PoolBuffer receive = {};
    PoolBuffer staged_send = {};  // on the host, for the GPU to copy from
    PoolBuffer staged_receive = {};
    std::shared_ptr<const CudaEvent> arrived = {};  // once the rank has waited for it
  };
  // A gathered param's memory, and the last write to it.
  struct LiveParam {
    PoolBuffer memory;
    std::shared_ptr<const CudaEvent> written;
  };

  Raised start() override;
  Raised finish() override;
  void receive(std::vector<int64_t>& ints) override;

  const Collective& collective(size_t index) const { return sequence()[index]; }
  void lay_out(const Collective& collective, Transfer& transfer);
  void send_up(const Collective& collective, Transfer& transfer);
  void announce(const Collective& collective, Transfer& transfer);
  void progress();
  void progress(ProcessGroup group);
  void begin(size_t index, Transfer& transfer);
  void complete_arrived();
  void complete(size_t index, Transfer& transfer);
  bool begun_up_to(const std::array<int64_t, kProcessGroups>& numbers) const;
  void wait_on_stream(size_t index, Transfer& transfer);
  void keep_params(const Collective& collective, Transfer& transfer);
  void give_back_memory();
  void block_on(const CudaEvent& event, const Collective& collective);

  const MpiJob& job_;
  const MpiGroups& groups_;
  NcclDevice& device_;
  MovedData& data_;
  std::optional<KillFault> fault_;
  bool host_waits_;  // the release's all-gathers end with the host waiting for the GPU

  std::vector<std::unique_ptr<Transfer>> transfers_;          // by index in the sequence; null: complete
  std::array<std::deque<size_t>, kProcessGroups> announced_;  // not yet begun, in their order
  std::vector<size_t> arriving_;                              // waited for, and perhaps still on the GPU
  OngoingEvents fetches_;
  OngoingEvents reductions_;
  std::map<int, LiveParam> live_;  // by ds_id
  std::vector<LiveParam> released_;
  // Of finish_all(): MPI works in them.
  std::array<int64_t, kProcessGroups> own_counts_ = {};
  std::vector<int64_t> all_counts_;
  MPI_Request counts_ = MPI_REQUEST_NULL;
};

}  // namespace zero3::sim
