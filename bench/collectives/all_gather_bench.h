// What the benchmarks of all-gathers share: their options, how a round is timed, and nccl-tests' columns and formulas.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include <CLI/CLI.hpp>

#include "coordinator/communicator.h"
#include "coordinator/param.h"
#include "sim/backends/mpi/mpi_job.h"

namespace zero3::sim {

struct GatherOptions {
  size_t min_bytes = 0;
  size_t max_bytes = 0;
  int rounds = 0;
  int params = 4;
};

// What one size took: medians of the slowest rank's times.
struct GatherTimes {
  double raw_s = 0;
  double backend_s = 0;
  size_t wrong = 0;  // elements
};

// Params of one size, to be gathered together.
class GatheredParams {
 public:
  // `shard_numel`: elements of each that one rank holds.
  GatheredParams(int count, size_t shard_numel, int world_size);

  // Launches and waits; ends the job if either fails.
  void gather(const MpiJob& job, Communicator& communicator);

 private:
  std::vector<Param> params_;
  std::vector<Param*> pointers_;
};

void add_gather_options(CLI::App& app, GatherOptions& options);
// Runs both in turns, as many rounds as asked for, and counts in `wrong` afterwards. All ranks have to come.
GatherTimes time_in_turns(int rounds, const std::function<void()>& raw, const std::function<void()>& backend,
                          const std::function<size_t()>& wrong);
// `ranks`: what there is one of for each rank; `raw`: the library's own function.
void print_head(const MpiJob& job, const GatherOptions& options, const char* ranks, const char* raw);
// `type`: of elements, of 4 bytes. `count`: elements that one rank contributes.
void print_row(const MpiJob& job, const char* type, size_t count, const GatherTimes& times);

}  // namespace zero3::sim
