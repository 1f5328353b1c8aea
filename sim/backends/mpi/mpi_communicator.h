// A rank's collectives over MPI: all-gathers are launched and waited for where DeepSpeed launches and waits, each
// process group is a communicator of its own.
//
// MPI says nothing of ranks that issue different collectives in one place, and Open MPI's own write where they should
// not once sizes differ. So an all-gather is an exchange of messages whose tag says what it is (operation, size and
// number): one that is not answered by its like never completes. All others wait for one another, so they first
// exchange headers, and move data where these are the same.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <mpi.h>

#include "sim/backends/backend.h"
#include "sim/backends/moved_data.h"
#include "sim/backends/mpi/collective_header.h"
#include "sim/backends/mpi/mpi_job.h"
#include "sim/backends/rank_communicator.h"

namespace zero3::sim {

// The communicators of one run: for data and for headers, by process group.
class MpiGroups {
 public:
  explicit MpiGroups(MpiJob& job);
  ~MpiGroups();
  MpiGroups(const MpiGroups&) = delete;
  MpiGroups& operator=(const MpiGroups&) = delete;

  MPI_Comm data(ProcessGroup group) const { return data_.at(static_cast<size_t>(group)); }
  MPI_Comm headers(ProcessGroup group) const { return headers_.at(static_cast<size_t>(group)); }

 private:
  std::array<MPI_Comm, kProcessGroups> data_ = {};
  std::array<MPI_Comm, kProcessGroups> headers_ = {};
};

class MpiCommunicator final : public RankCommunicator {
 public:
  MpiCommunicator(const MpiJob& job, const MpiGroups& groups, const Behaviour& behaviour, MovedData& data,
                  std::optional<KillFault> fault)
      : RankCommunicator(job.rank(), job.size(), behaviour),
        job_(job),
        groups_(groups),
        data_(data),
        fault_(fault) {}

  // Whether a collective has not completed. MPI may still write into its buffers, here and in the data: neither may be
  // destroyed.
  bool has_open_collectives();

 private:
  struct Posted {
    CollectiveHeader own = {};
    std::vector<CollectiveHeader> all = {};  // of all ranks; an all-gather has none
    std::vector<int64_t> ints = {};
    std::vector<std::byte> of_all = {};      // of a reduce-scatter: what each rank sends to this one
    std::vector<MPI_Request> requests = {};  // of an all-gather's messages; of the headers, then of the data
    bool has_data = false;                   // its data is on the way
  };

  Raised start() override;
  Raised finish() override;
  void receive(std::vector<int64_t>& ints) override;
  void post_all_gather(const Collective& collective, Posted& posted);
  void post_headers(const Collective& collective, Posted& posted);
  void post_data(const Collective& collective, Posted& posted);
  static bool complete(Posted& posted);

  const MpiJob& job_;
  const MpiGroups& groups_;
  MovedData& data_;
  std::optional<KillFault> fault_;
  std::vector<std::unique_ptr<Posted>> posted_;  // by index in the sequence; null: complete
};

}  // namespace zero3::sim
