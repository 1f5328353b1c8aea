// How long ZeRO-3's bookkeeping takes: an operation is one fetch or one release of one module.
//
// scripts/checks/instructions counts the instructions inside each bm_ function; what comes before is in a Setup.
#include <benchmark/benchmark.h>

#include "bench/allocations.h"
#include "bench/bench_model.h"

namespace zero3::bench {
namespace {

constexpr int kWide = 16;  // params a layer: a transformer block gathered as one

std::unique_ptr<Workbench> workbench;
std::unique_ptr<TrainingRun> training_run;
CountingObserver observer;
Release rank_release;

template <const Release& kRelease>
void prepare_workbench(const benchmark::State&) {
  workbench = std::make_unique<Workbench>(kRelease, 1, nullptr);
  workbench->warm_up();
}

template <const Release& kRelease>
void prepare_observed_workbench(const benchmark::State&) {
  workbench = std::make_unique<Workbench>(kRelease, 1, &observer);
  workbench->warm_up();
}

template <const Release& kRelease>
void prepare_wide_workbench(const benchmark::State&) {
  workbench = std::make_unique<Workbench>(kRelease, kWide, nullptr);
  workbench->warm_up();
}

template <const Release& kRelease>
void prepare_training_run(const benchmark::State&) {
  training_run = std::make_unique<TrainingRun>(kRelease);
  for (int i = 0; i < 3; ++i) training_run->iteration();
}

template <const Release& kRelease>
void choose_release(const benchmark::State&) {
  rank_release = kRelease;
}

// Shows the time of one operation beside the time of a whole loop of the benchmark.
void report_operations(benchmark::State& state, int operations_per_loop) {
  state.counters["per_operation"] = benchmark::Counter(
      operations_per_loop, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

// A forward and a backward under a complete trace. Observed: every event goes to an observer. Wide: 16 params a layer.
void bm_pass(benchmark::State& state) {
  for (auto _ : state) workbench->pass();
  report_operations(state, Workbench::kOperations);
}

// The trace thrown away and one pass recorded anew.
void bm_record(benchmark::State& state) {
  for (auto _ : state) {
    workbench->invalidate();
    workbench->pass();
  }
  report_operations(state, Workbench::kOperations);
}

// A pass that leaves a layer out, and the two after which the trace is whole again: the first is invalidated half way,
// the second records, the third prefetches.
void bm_invalidation(benchmark::State& state) {
  for (auto _ : state) {
    workbench->pass(kLayers / 2);
    workbench->pass();
    workbench->pass();
  }
  report_operations(state, 3 * Workbench::kOperations - 4);
}

// engine.forward, engine.backward and engine.step, autograd's order included.
void bm_iteration(benchmark::State& state) {
  const int64_t before = allocations().calls;
  for (auto _ : state) training_run->iteration();
  report_operations(state, Workbench::kOperations);
  state.counters["allocations"] = benchmark::Counter(static_cast<double>(allocations().calls - before),
                                                     benchmark::Counter::kAvgIterations);
}

// A rank from nothing to its third iteration, and the memory that it then holds.
void bm_rank(benchmark::State& state) {
  int64_t bytes = 0;
  for (auto _ : state) {
    const int64_t before = allocations().live_bytes;
    TrainingRun run(rank_release);
    for (int i = 0; i < 3; ++i) run.iteration();
    bytes = allocations().live_bytes - before;
  }
  state.counters["live_bytes"] = static_cast<double>(bytes);
}

BENCHMARK(bm_pass)->Name("pass/v0.5.10")->Setup(prepare_workbench<v0_5_10>);
BENCHMARK(bm_pass)->Name("pass/v0.6.0")->Setup(prepare_workbench<v0_6_0>);
BENCHMARK(bm_pass)->Name("pass/v0.15.2")->Setup(prepare_workbench<v0_15_2>);
BENCHMARK(bm_pass)->Name("pass/v0.19.8")->Setup(prepare_workbench<v0_19_8>);
BENCHMARK(bm_pass)->Name("observed_pass/v0.5.10")->Setup(prepare_observed_workbench<v0_5_10>);
BENCHMARK(bm_pass)->Name("observed_pass/v0.6.0")->Setup(prepare_observed_workbench<v0_6_0>);
BENCHMARK(bm_pass)->Name("observed_pass/v0.15.2")->Setup(prepare_observed_workbench<v0_15_2>);
BENCHMARK(bm_pass)->Name("observed_pass/v0.19.8")->Setup(prepare_observed_workbench<v0_19_8>);
BENCHMARK(bm_pass)->Name("wide_pass/v0.15.2")->Setup(prepare_wide_workbench<v0_15_2>);
BENCHMARK(bm_pass)->Name("wide_pass/v0.19.8")->Setup(prepare_wide_workbench<v0_19_8>);
BENCHMARK(bm_record)->Name("record/v0.19.8")->Setup(prepare_workbench<v0_19_8>);
BENCHMARK(bm_invalidation)->Name("invalidation/v0.19.8")->Setup(prepare_workbench<v0_19_8>);
BENCHMARK(bm_iteration)->Name("iteration/v0.5.10")->Setup(prepare_training_run<v0_5_10>);
BENCHMARK(bm_iteration)->Name("iteration/v0.6.0")->Setup(prepare_training_run<v0_6_0>);
BENCHMARK(bm_iteration)->Name("iteration/v0.15.2")->Setup(prepare_training_run<v0_15_2>);
BENCHMARK(bm_iteration)->Name("iteration/v0.19.8")->Setup(prepare_training_run<v0_19_8>);
BENCHMARK(bm_rank)->Name("rank/v0.5.10")->Setup(choose_release<v0_5_10>);
BENCHMARK(bm_rank)->Name("rank/v0.19.8")->Setup(choose_release<v0_19_8>);

}  // namespace
}  // namespace zero3::bench
