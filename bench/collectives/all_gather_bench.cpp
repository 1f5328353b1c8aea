#include "bench/collectives/all_gather_bench.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include <mpi.h>

namespace zero3::sim {
namespace {

constexpr double kElementBytes = 4;

double slowest_seconds(const std::function<void()>& work) {
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

}  // namespace

GatheredParams::GatheredParams(int count, size_t shard_numel, int world_size)
    : params_(static_cast<size_t>(count)) {
  for (size_t i = 0; i < params_.size(); ++i) {
    params_[i].ds_id = static_cast<int>(i);
    params_[i].ds_numel = static_cast<int64_t>(shard_numel) * world_size;
    pointers_.push_back(&params_[i]);
  }
}

void GatheredParams::gather(const MpiJob& job, Communicator& communicator) {
  Communicator::Request request = -1;
  if (communicator.launch_all_gather(pointers_, request) || communicator.wait(request))
    job.abort("an all-gather of the backend failed", 1);
}

void add_gather_options(CLI::App& app, GatherOptions& options) {
  app.add_option("--min", options.min_bytes, "Smallest size, bytes")->transform(CLI::AsSizeValue(false));
  app.add_option("--max", options.max_bytes, "Largest size, bytes")->transform(CLI::AsSizeValue(false));
  app.add_option("--rounds", options.rounds, "Of each size")->check(CLI::Range(1, 100000));
  app.add_option("--params", options.params, "Coalesced in one all-gather")->check(CLI::Range(1, 4096));
}

GatherTimes time_in_turns(int rounds, const std::function<void()>& raw, const std::function<void()>& backend,
                          const std::function<size_t()>& wrong) {
  std::vector<double> raw_s;
  std::vector<double> backend_s;
  for (int round = 0; round < rounds; ++round) {
    raw_s.push_back(slowest_seconds(raw));
    backend_s.push_back(slowest_seconds(backend));
  }
  return {median(raw_s), median(backend_s), wrong()};
}

void print_head(const MpiJob& job, const GatherOptions& options, const char* ranks, const char* raw) {
  std::printf("# %d %s, %d params coalesced, median of %d rounds\n", job.size(), ranks, options.params,
              options.rounds);
  std::printf("#%11s %12s %8s %6s %6s %28s %28s %6s %8s\n", "", "", "", "", "", raw, "backend", "", "");
  std::printf("#%11s %12s %8s %6s %6s %10s %8s %8s %10s %8s %8s %6s %8s\n", "size", "count", "type", "redop",
              "root", "time", "algbw", "busbw", "time", "algbw", "busbw", "#wrong", "ratio");
  std::printf("#%11s %12s %8s %6s %6s %10s %8s %8s %10s %8s %8s\n", "(B)", "(elements)", "", "", "", "(us)",
              "(GB/s)", "(GB/s)", "(us)", "(GB/s)", "(GB/s)");
}

void print_row(const MpiJob& job, const char* type, size_t count, const GatherTimes& times) {
  const double bytes = static_cast<double>(count) * kElementBytes * job.size();
  const double bus = (job.size() - 1.0) / job.size();
  const auto bandwidth = [bytes](double time_s) { return bytes / time_s / 1e9; };
  std::printf("%12.0f %12zu %8s %6s %6s %10.1f %8.2f %8.2f %10.1f %8.2f %8.2f %6zu %8.3f\n", bytes, count,
              type, "none", "-1", times.raw_s * 1e6, bandwidth(times.raw_s), bandwidth(times.raw_s) * bus,
              times.backend_s * 1e6, bandwidth(times.backend_s), bandwidth(times.backend_s) * bus,
              times.wrong, times.raw_s / times.backend_s);
  std::fflush(stdout);
}

}  // namespace zero3::sim
