// Coalesced all-gathers through the MPI backend beside MPI_Iallgather alone, in turns within one run, in the columns
// and by the formulas of nccl-tests: size is what every rank holds in the end, algbw = size / time, busbw = algbw
// (n-1) / n.
//
// usage: mpirun -np N zero3sim_mpi_all_gather [--min BYTES] [--max BYTES] [--rounds N] [--params N]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include <CLI/CLI.hpp>
#include <mpi.h>

#include "coordinator/behaviour.h"
#include "coordinator/param.h"
#include "coordinator/release.h"
#include "sim/backends/moved_data.h"
#include "sim/backends/mpi/mpi_communicator.h"
#include "sim/backends/mpi/mpi_job.h"

namespace {

using namespace zero3;
using namespace zero3::sim;

struct Options {
  size_t min_bytes = 4 << 10;
  size_t max_bytes = 64 << 20;
  int rounds = 30;
  int params = 4;
};

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

double seconds(const std::function<void()>& work) {
  MPI_Barrier(MPI_COMM_WORLD);
  const auto begin = std::chrono::steady_clock::now();
  work();
  const double own = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  double slowest = 0;
  MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

struct Times {
  double raw_s = 0;
  double backend_s = 0;
  size_t wrong = 0;
};

Times measure(const MpiJob& job, const MpiGroups& groups, const Options& options, size_t shard_numel) {
  Shards shards(job.rank(), job.size(), options.params, shard_numel);
  MpiCommunicator communicator(job, groups, behaviour_of(known_releases().back()), shards, std::nullopt);
  std::vector<Param> params(static_cast<size_t>(options.params));
  std::vector<Param*> pointers;
  for (size_t i = 0; i < params.size(); ++i) {
    params[i].ds_id = static_cast<int>(i);
    params[i].ds_numel = static_cast<int64_t>(shard_numel) * job.size();
    pointers.push_back(&params[i]);
  }
  const auto raw = [&] {
    shards.pack();
    const auto bytes = static_cast<int>(shards.part_bytes());
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallgather(MPI_IN_PLACE, bytes, MPI_BYTE, shards.parts().data(), bytes, MPI_BYTE,
                   groups.data(ProcessGroup::kWorld), &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  };
  const auto backend = [&] {
    Communicator::Request request = -1;
    if (communicator.launch_all_gather(pointers, request) || communicator.wait(request))
      job.abort("an all-gather of the backend failed", 1);
  };
  std::vector<double> raw_s;
  std::vector<double> backend_s;
  for (int round = 0; round < options.rounds; ++round) {
    raw_s.push_back(seconds(raw));
    backend_s.push_back(seconds(backend));
  }
  return {median(raw_s), median(backend_s), shards.wrong()};
}

void print_row(const MpiJob& job, size_t count, const Times& times) {
  const double bytes = static_cast<double>(count) * sizeof(float) * job.size();
  const double bus = (job.size() - 1.0) / job.size();
  const auto bandwidth = [bytes](double time_s) { return bytes / time_s / 1e9; };
  std::printf("%12.0f %12zu %8s %6s %6s %10.1f %8.2f %8.2f %10.1f %8.2f %8.2f %6zu %8.3f\n", bytes, count,
              "float", "none", "-1", times.raw_s * 1e6, bandwidth(times.raw_s), bandwidth(times.raw_s) * bus,
              times.backend_s * 1e6, bandwidth(times.backend_s), bandwidth(times.backend_s) * bus,
              times.wrong, times.raw_s / times.backend_s);
  std::fflush(stdout);
}

void measure_all(const Options& options) {
  MpiJob job(60'000);
  const MpiGroups groups(job);
  if (job.rank() == 0) {
    std::printf("# %d ranks, %d params coalesced, median of %d rounds\n", job.size(), options.params,
                options.rounds);
    std::printf("#%11s %12s %8s %6s %6s %28s %28s %6s %8s\n", "", "", "", "", "", "MPI_Iallgather", "backend",
                "", "");
    std::printf("#%11s %12s %8s %6s %6s %10s %8s %8s %10s %8s %8s %6s %8s\n", "size", "count", "type",
                "redop", "root", "time", "algbw", "busbw", "time", "algbw", "busbw", "#wrong", "ratio");
    std::printf("#%11s %12s %8s %6s %6s %10s %8s %8s %10s %8s %8s\n", "(B)", "(elements)", "", "", "", "(us)",
                "(GB/s)", "(GB/s)", "(us)", "(GB/s)", "(GB/s)");
  }
  const size_t of_all = sizeof(float) * static_cast<size_t>(job.size()) * static_cast<size_t>(options.params);
  for (size_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes *= 2) {
    const size_t shard_numel = std::max<size_t>(bytes / of_all, 1);
    const Times times = measure(job, groups, options, shard_numel);
    if (job.rank() == 0) print_row(job, shard_numel * static_cast<size_t>(options.params), times);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("All-gathers of the MPI backend beside MPI's own");
  app.add_option("--min", options.min_bytes, "Smallest size, bytes")->transform(CLI::AsSizeValue(false));
  app.add_option("--max", options.max_bytes, "Largest size, bytes")->transform(CLI::AsSizeValue(false));
  app.add_option("--rounds", options.rounds, "Of each size")->check(CLI::Range(1, 100000));
  app.add_option("--params", options.params, "Coalesced in one all-gather")->check(CLI::Range(1, 4096));
  CLI11_PARSE(app, argc, argv);
  measure_all(options);
}
