// Coalesced all-gathers through the NCCL backend beside ncclAllGather alone, in turns within one run, in the columns
// and by the formulas of nccl-tests: size is what every rank holds in the end, algbw = size / time, busbw = algbw
// (n-1) / n. Both work in place, in one buffer of the GPU.
//
// usage: mpirun -np N zero3sim_nccl_all_gather [--min BYTES] [--max BYTES] [--rounds N] [--params N]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include <CLI/CLI.hpp>
#include <cuda_runtime_api.h>
#include <mpi.h>

#include "coordinator/behaviour.h"
#include "coordinator/param.h"
#include "coordinator/release.h"
#include "sim/backends/moved_data.h"
#include "sim/backends/mpi/mpi_communicator.h"
#include "sim/backends/mpi/mpi_job.h"
#include "sim/backends/nccl/cuda_error.h"
#include "sim/backends/nccl/nccl_communicator.h"
#include "sim/backends/nccl/nccl_device.h"

namespace {

using namespace zero3;
using namespace zero3::sim;

struct GatherOptions {
  size_t min_bytes = 64 << 10;
  size_t max_bytes = size_t{1} << 30;
  int rounds = 20;
  int params = 4;
};

// The buffer that both sides gather in, on the GPU, with this rank's part in its place.
class DeviceParts final : public MovedData {
 public:
  DeviceParts(NcclDevice& device, int rank, int world_size, size_t part_words)
      : device_(device),
        own_(static_cast<size_t>(rank)),
        part_words_(part_words),
        words_(static_cast<size_t>(world_size) * part_words),
        buffer_(device.memory(), words_.size() * sizeof(uint32_t)) {
    std::ranges::fill(part(own_), word_of(own_));
    copy(buffer_.data(), words_.data(), cudaMemcpyHostToDevice);
  }

  Buffers begin(const Collective&) override { return {.receive = parts()}; }
  void end(const Collective&, size_t) override {}
  bool on_device() const override { return true; }

  std::span<std::byte> parts() const { return {buffer_.data(), buffer_.bytes()}; }
  // Words that are not what their rank sent.
  size_t wrong() {
    copy(words_.data(), buffer_.data(), cudaMemcpyDeviceToHost);
    size_t count = 0;
    for (size_t rank = 0; rank * part_words_ < words_.size(); ++rank) {
      for (const uint32_t word : part(rank)) count += word != word_of(rank) ? 1 : 0;
    }
    return count;
  }

 private:
  static uint32_t word_of(size_t rank) { return static_cast<uint32_t>(rank) + 1; }
  std::span<uint32_t> part(size_t rank) { return std::span(words_).subspan(rank * part_words_, part_words_); }
  void copy(void* to, const void* from, cudaMemcpyKind kind) {
    const cudaStream_t stream = device_.compute_stream().get();
    check_cuda(cudaMemcpyAsync(to, from, buffer_.bytes(), kind, stream), "a copy failed");
    check_cuda(cudaStreamSynchronize(stream), "a copy failed");
  }

  NcclDevice& device_;
  size_t own_;
  size_t part_words_;
  std::vector<uint32_t> words_;
  PoolBuffer buffer_;
};

double slowest_seconds(const std::function<void()>& work) {
  MPI_Barrier(MPI_COMM_WORLD);
  const auto begin = std::chrono::steady_clock::now();
  work();
  const double own = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  double slowest = 0;
  MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

double middle(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

struct GatherTimes {
  double raw_s = 0;
  double backend_s = 0;
  size_t wrong = 0;
};

// One all-gather at a time, until the GPU has it.
class Gathers {
 public:
  Gathers(const MpiJob& job, const MpiGroups& groups, NcclDevice& device, int params, size_t shard_numel)
      : job_(job),
        device_(device),
        parts_(device, job.rank(), job.size(), static_cast<size_t>(params) * shard_numel),
        communicator_(job, groups, device, behaviour_of(known_releases().back()), parts_, std::nullopt),
        params_(static_cast<size_t>(params)) {
    for (size_t i = 0; i < params_.size(); ++i) {
      params_[i].ds_id = static_cast<int>(i);
      params_[i].ds_numel = static_cast<int64_t>(shard_numel) * job.size();
      pointers_.push_back(&params_[i]);
    }
  }

  void raw() {
    const std::span<std::byte> parts = parts_.parts();
    const size_t part = parts.size() / static_cast<size_t>(job_.size());
    NcclGroup& group = device_.group(ProcessGroup::kWorld);
    const CudaStream& stream = device_.stream(CollectiveKind::kAllGather);
    group.called(ncclAllGather(parts.data() + part * static_cast<size_t>(job_.rank()), parts.data(), part / 4,
                               ncclUint32, group.get(), stream.get()),
                 "in ncclAllGather");
    job_.poll([&] { return group.ready(); }, job_.timeout_ms());
    check_cuda(cudaStreamSynchronize(stream.get()), "an all-gather failed");
  }
  void backend() {
    Communicator::Request request = -1;
    if (communicator_.launch_all_gather(pointers_, request) || communicator_.wait(request))
      job_.abort("an all-gather of the backend failed", 1);
    check_cuda(cudaStreamSynchronize(device_.compute_stream().get()), "an all-gather failed");
  }
  GatherTimes times(int rounds) {
    std::vector<double> raw_s;
    std::vector<double> backend_s;
    for (int round = 0; round < rounds; ++round) {
      raw_s.push_back(slowest_seconds([this] { raw(); }));
      backend_s.push_back(slowest_seconds([this] { backend(); }));
    }
    const GatherTimes times{middle(raw_s), middle(backend_s), parts_.wrong()};
    communicator_.finish_all();
    return times;
  }

 private:
  const MpiJob& job_;
  NcclDevice& device_;
  DeviceParts parts_;
  NcclCommunicator communicator_;
  std::vector<Param> params_;
  std::vector<Param*> pointers_;
};

void print_head(const MpiJob& job, const GatherOptions& options) {
  std::printf("# %d GPUs, %d params coalesced, median of %d rounds\n", job.size(), options.params,
              options.rounds);
  std::printf("#%11s %12s %8s %6s %6s %28s %28s %6s %8s\n", "", "", "", "", "", "ncclAllGather", "backend",
              "", "");
  std::printf("#%11s %12s %8s %6s %6s %10s %8s %8s %10s %8s %8s %6s %8s\n", "size", "count", "type", "redop",
              "root", "time", "algbw", "busbw", "time", "algbw", "busbw", "#wrong", "ratio");
  std::printf("#%11s %12s %8s %6s %6s %10s %8s %8s %10s %8s %8s\n", "(B)", "(elements)", "", "", "", "(us)",
              "(GB/s)", "(GB/s)", "(us)", "(GB/s)", "(GB/s)");
}

void print_times(const MpiJob& job, size_t count, const GatherTimes& times) {
  const double bytes = static_cast<double>(count) * sizeof(uint32_t) * job.size();
  const double bus = (job.size() - 1.0) / job.size();
  const auto bandwidth = [bytes](double time_s) { return bytes / time_s / 1e9; };
  std::printf("%12.0f %12zu %8s %6s %6s %10.1f %8.2f %8.2f %10.1f %8.2f %8.2f %6zu %8.3f\n", bytes, count,
              "uint32", "none", "-1", times.raw_s * 1e6, bandwidth(times.raw_s), bandwidth(times.raw_s) * bus,
              times.backend_s * 1e6, bandwidth(times.backend_s), bandwidth(times.backend_s) * bus,
              times.wrong, times.raw_s / times.backend_s);
  std::fflush(stdout);
}

void measure_on_gpus(MpiJob& job, const GatherOptions& options) {
  const MpiGroups groups(job);
  NcclDevice device(job);
  device.connect(job);
  if (job.rank() == 0) print_head(job, options);
  const size_t of_all =
      sizeof(uint32_t) * static_cast<size_t>(job.size()) * static_cast<size_t>(options.params);
  for (size_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes *= 4) {
    const size_t shard_numel = std::max<size_t>(bytes / of_all, 1);
    const GatherTimes times = Gathers(job, groups, device, options.params, shard_numel).times(options.rounds);
    if (job.rank() == 0) print_times(job, shard_numel * static_cast<size_t>(options.params), times);
  }
  device.disconnect(job);
}

}  // namespace

int main(int argc, char** argv) {
  GatherOptions options;
  CLI::App app("All-gathers of the NCCL backend beside NCCL's own");
  app.add_option("--min", options.min_bytes, "Smallest size, bytes")->transform(CLI::AsSizeValue(false));
  app.add_option("--max", options.max_bytes, "Largest size, bytes")->transform(CLI::AsSizeValue(false));
  app.add_option("--rounds", options.rounds, "Of each size")->check(CLI::Range(1, 100000));
  app.add_option("--params", options.params, "Coalesced in one all-gather")->check(CLI::Range(1, 4096));
  CLI11_PARSE(app, argc, argv);
  MpiJob job(60'000);
  try {
    measure_on_gpus(job, options);
  } catch (const std::exception& error) {
    job.abort(error.what(), 5);
  }
}
