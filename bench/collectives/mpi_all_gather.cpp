// Coalesced all-gathers through the MPI backend beside MPI_Iallgather alone, in turns within one run, in the columns
// and by the formulas of nccl-tests: size is what every rank holds in the end, algbw = size / time, busbw = algbw
// (n-1) / n.
//
// usage: mpirun -np N zero3sim_mpi_all_gather [--min BYTES] [--max BYTES] [--rounds N] [--params N]
#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include <CLI/CLI.hpp>
#include <mpi.h>

#include "bench/collectives/all_gather_bench.h"
#include "coordinator/behaviour.h"
#include "coordinator/release.h"
#include "sim/backends/moved_data.h"
#include "sim/backends/mpi/mpi_communicator.h"
#include "sim/backends/mpi/mpi_job.h"

namespace {

using namespace zero3;
using namespace zero3::sim;

// Shards of params of one size, and a buffer that all of them are gathered into: what both sides work with.
class Shards final : public MovedData {
 public:
  Shards(int rank, int world_size, int params, size_t shard_numel)
      : rank_(static_cast<size_t>(rank)),
        shards_(static_cast<size_t>(params), std::vector<float>(shard_numel, static_cast<float>(rank + 1))),
        part_bytes_(static_cast<size_t>(params) * shard_numel * sizeof(float)),
        parts_(static_cast<size_t>(world_size) * part_bytes_) {}

  Buffers begin(const Collective&) override {
    pack();
    return {.receive = parts_};
  }
  void end(const Collective&, size_t) override {}

  // Copies this rank's shards to their place among all.
  void pack() {
    std::byte* to = parts_.data() + rank_ * part_bytes_;
    for (const std::vector<float>& shard : shards_) {
      std::memcpy(to, shard.data(), shard.size() * sizeof(float));
      to += shard.size() * sizeof(float);
    }
  }
  std::span<std::byte> parts() { return parts_; }
  size_t part_bytes() const { return part_bytes_; }
  // Elements that are not what their rank sent.
  size_t wrong() const {
    size_t count = 0;
    for (size_t rank = 0; rank * part_bytes_ < parts_.size(); ++rank) {
      for (size_t at = 0; at < part_bytes_; at += sizeof(float)) {
        float value = 0;
        std::memcpy(&value, parts_.data() + rank * part_bytes_ + at, sizeof(float));
        count += value != static_cast<float>(rank + 1) ? 1 : 0;
      }
    }
    return count;
  }

 private:
  size_t rank_;
  std::vector<std::vector<float>> shards_;
  size_t part_bytes_;
  std::vector<std::byte> parts_;
};

GatherTimes measure(const MpiJob& job, const MpiGroups& groups, const GatherOptions& options,
                    size_t shard_numel) {
  Shards shards(job.rank(), job.size(), options.params, shard_numel);
  MpiCommunicator communicator(job, groups, behaviour_of(known_releases().back()), shards, std::nullopt);
  GatheredParams params(options.params, shard_numel, job.size());
  const auto raw = [&] {
    shards.pack();
    const auto bytes = static_cast<int>(shards.part_bytes());
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallgather(MPI_IN_PLACE, bytes, MPI_BYTE, shards.parts().data(), bytes, MPI_BYTE,
                   groups.data(ProcessGroup::kWorld), &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  };
  return time_in_turns(
      options.rounds, raw, [&] { params.gather(job, communicator); }, [&] { return shards.wrong(); });
}

void measure_all(const GatherOptions& options) {
  MpiJob job(60'000);
  const MpiGroups groups(job);
  if (job.rank() == 0) print_head(job, options, "ranks", "MPI_Iallgather");
  const size_t of_all = sizeof(float) * static_cast<size_t>(job.size()) * static_cast<size_t>(options.params);
  for (size_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes *= 2) {
    const size_t shard_numel = std::max<size_t>(bytes / of_all, 1);
    const GatherTimes times = measure(job, groups, options, shard_numel);
    if (job.rank() == 0) print_row(job, "float", shard_numel * static_cast<size_t>(options.params), times);
  }
}

}  // namespace

int main(int argc, char** argv) {
  GatherOptions options{.min_bytes = 4 << 10, .max_bytes = 64 << 20, .rounds = 30};
  CLI::App app("All-gathers of the MPI backend beside MPI's own");
  add_gather_options(app, options);
  CLI11_PARSE(app, argc, argv);
  measure_all(options);
}
