// Coalesced all-gathers through the NCCL backend beside ncclAllGather alone, in turns within one run, in the columns
// and by the formulas of nccl-tests: size is what every rank holds in the end, algbw = size / time, busbw = algbw
// (n-1) / n. Both work in place, in one buffer of the GPU.
//
// usage: mpirun -np N zero3sim_nccl_all_gather [--min BYTES] [--max BYTES] [--rounds N] [--params N]
#include <algorithm>
#include <exception>
#include <optional>
#include <span>
#include <vector>

#include <CLI/CLI.hpp>
#include <cuda_runtime_api.h>
#include <mpi.h>

#include "bench/collectives/all_gather_bench.h"
#include "coordinator/behaviour.h"
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

// One all-gather at a time, until the GPU has it.
class Gathers {
 public:
  Gathers(const MpiJob& job, const MpiGroups& groups, NcclDevice& device, int params, size_t shard_numel)
      : job_(job),
        device_(device),
        parts_(device, job.rank(), job.size(), static_cast<size_t>(params) * shard_numel),
        communicator_(job, groups, device, behaviour_of(known_releases().back()), parts_, std::nullopt),
        params_(params, shard_numel, job.size()) {}

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
    params_.gather(job_, communicator_);
    check_cuda(cudaStreamSynchronize(device_.compute_stream().get()), "an all-gather failed");
  }
  GatherTimes times(int rounds) {
    const GatherTimes times = time_in_turns(
        rounds, [this] { raw(); }, [this] { backend(); }, [this] { return parts_.wrong(); });
    communicator_.finish_all();
    return times;
  }

 private:
  const MpiJob& job_;
  NcclDevice& device_;
  DeviceParts parts_;
  NcclCommunicator communicator_;
  GatheredParams params_;
};

void measure_on_gpus(MpiJob& job, const GatherOptions& options) {
  const MpiGroups groups(job);
  NcclDevice device(job);
  device.connect(job);
  if (job.rank() == 0) print_head(job, options, "GPUs", "ncclAllGather");
  const size_t of_all =
      sizeof(uint32_t) * static_cast<size_t>(job.size()) * static_cast<size_t>(options.params);
  for (size_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes *= 4) {
    const size_t shard_numel = std::max<size_t>(bytes / of_all, 1);
    const GatherTimes times = Gathers(job, groups, device, options.params, shard_numel).times(options.rounds);
    if (job.rank() == 0) print_row(job, "uint32", shard_numel * static_cast<size_t>(options.params), times);
  }
  device.disconnect(job);
}

}  // namespace

int main(int argc, char** argv) {
  GatherOptions options{.min_bytes = 64 << 10, .max_bytes = size_t{1} << 30, .rounds = 20};
  CLI::App app("All-gathers of the NCCL backend beside NCCL's own");
  add_gather_options(app, options);
  CLI11_PARSE(app, argc, argv);
  MpiJob job(60'000);
  try {
    measure_on_gpus(job, options);
  } catch (const std::exception& error) {
    job.abort(error.what(), 5);
  }
}
