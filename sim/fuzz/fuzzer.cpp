#include "sim/fuzz/fuzzer.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "sim/fuzz/generator.h"
#include "sim/fuzz/shrinker.h"

namespace zero3::sim {
namespace {

constexpr uint64_t kShare = 10;

class Fuzzer {
 public:
  Fuzzer(const FuzzOptions& options, const FuzzHooks& hooks) : options_(options), hooks_(hooks) {}

  FuzzResult run() {
    std::vector<std::thread> threads;
    for (int i = 0; i < options_.jobs; ++i) threads.emplace_back([this] { work(); });
    for (std::thread& thread : threads) thread.join();
    if (error_) std::rethrow_exception(error_);
    std::ranges::sort(result_.findings, {}, &FuzzFinding::index);
    for (auto& [why, programs] : result_.undecided) std::ranges::sort(programs);
    return std::move(result_);
  }

 private:
  void work() {
    try {
      const std::unique_ptr<Judge> judge = hooks_.make_judge();
      while (!stopped_) {
        const uint64_t number = next_++;
        if (number >= options_.programs) return;
        run_program(options_.first + number, *judge);
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      stopped_ = true;
    }
  }

  void run_program(uint64_t index, Judge& judge) {
    const int ranks = ranks_of(options_, index);
    const Experiment experiment = generate(options_.seed, index, options_.target, ranks);
    const std::string name = std::to_string(options_.seed) + "." + std::to_string(index);
    Judgement judgement = judge.judge(experiment, name);
    if (judgement.kind == Judgement::Kind::kDiffers) {
      FuzzFinding finding = smallest(index, experiment, std::move(judgement), name, judge);
      finding.ranks = ranks;
      const std::lock_guard lock(mutex_);
      if (hooks_.found) hooks_.found(finding);
      count(index, ranks, finding.judgement);
      result_.findings.push_back(std::move(finding));
    } else {
      const std::lock_guard lock(mutex_);
      count(index, ranks, judgement);
    }
  }

  FuzzFinding smallest(uint64_t index, const Experiment& experiment, Judgement judgement,
                       const std::string& name, Judge& judge) const {
    Judgement last = std::move(judgement);
    const std::string way = last.way;
    const auto same = [&](const Experiment& candidate) {
      Judgement again = judge.judge(candidate, name);
      if (again.kind != Judgement::Kind::kDiffers || again.way != way) return false;
      last = std::move(again);
      return true;
    };
    Shrunk shrunk = shrink(experiment, same, options_.shrink_limit);
    return {.index = index,
            .judgement = std::move(last),
            .smallest = std::move(shrunk.experiment),
            .runs = shrunk.asked,
            .finished = shrunk.finished};
  }

  // Under the mutex.
  void count(uint64_t index, int ranks, const Judgement& judgement) {
    FuzzResult::Counts& counts = result_.counts;
    switch (judgement.kind) {
      case Judgement::Kind::kAgrees: ++counts.agree; break;
      case Judgement::Kind::kDiffers: ++counts.differ; break;
      case Judgement::Kind::kInconclusive: ++counts.inconclusive; break;
      case Judgement::Kind::kTimedOut: ++counts.timed_out; break;
      case Judgement::Kind::kDied: ++counts.died; break;
    }
    const bool decided =
        judgement.kind == Judgement::Kind::kAgrees || judgement.kind == Judgement::Kind::kDiffers;
    if (!decided) result_.undecided[judgement.way].push_back(index);
    ++result_.programs_by_ranks[ranks];
    result_.raised += judgement.raised ? 1 : 0;
    result_.events += judgement.events;
    if (hooks_.progress) hooks_.progress(result_);
  }

  const FuzzOptions& options_;
  const FuzzHooks& hooks_;
  std::atomic<uint64_t> next_ = 0;
  std::atomic<bool> stopped_ = false;
  std::mutex mutex_;
  FuzzResult result_;
  std::exception_ptr error_;
};

}  // namespace

int ranks_of(const FuzzOptions& options, uint64_t index) {
  const uint64_t place = index % kShare;
  const uint64_t others = options.ranks.size() - 1;
  return place < others ? options.ranks[place + 1] : options.ranks.front();
}

FuzzResult fuzz(const FuzzOptions& options, const FuzzHooks& hooks) { return Fuzzer(options, hooks).run(); }

}  // namespace zero3::sim
