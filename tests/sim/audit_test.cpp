// What runs show though nothing is raised: which faults, on which releases, at what cost. Programs are small enough to
// count by hand; three layers A, B, C have 64 elements each.
#include "sim/audit/audit.h"

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/short_form.h"
#include "sim/unowned_watcher.h"

namespace zero3::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Audited {
  Usage usage;
  std::vector<SilentFault> faults;
  bool failed = false;

  std::vector<std::string> kinds() const { return kinds_of(faults); }
};

Audited audited(const std::string& release, const std::string& program, const ShortFormOptions& options) {
  const Experiment experiment = parse_short_form(program, options);
  const Release chosen = *Release::parse(release);
  Audit audit(experiment.settings, behaviour_of(chosen));
  const SimulationResult result =
      simulate(experiment, {chosen, 0, [&](int) { return std::make_unique<UnownedWatcher>(audit); }});
  return {audit.usage(), audit.faults(), result.failed()};
}

ShortFormOptions options(int64_t prefetch, int accumulation = 1) {
  ShortFormOptions made;
  made.max_reuse_distance_numel = 0;
  made.prefetch_bucket_numel = prefetch;
  made.gradient_accumulation_steps = accumulation;
  return made;
}

// eras.md 6.1: at a boundary the next forward uses what was gathered before the update [run v0.5.10].
TEST(Audit, StaleWeightsOfTheFirstCoordinator) {
  const std::string steps = "t:AAB t:AAB t:AAB t:AAB t:AAB t:AAB";
  for (const char* release : {"0.4.4", "0.5.4", "0.5.10"}) {
    const Audited run = audited(release, steps, options(100, 2));
    ASSERT_THAT(run.kinds(), ElementsAre("stale-weights")) << release;
    const SilentFault& fault = run.faults.front();
    EXPECT_EQ(fault.consequence, Consequence::kWrongResult);
    EXPECT_THAT(fault.params, ElementsAre("B.weight"));
    EXPECT_EQ(fault.statement, 4U);  // the first forward after a boundary that left something in flight
  }
  for (const char* release : {"0.6.0", "0.9.5", "0.15.2", "0.19.8"})
    EXPECT_THAT(audited(release, steps, options(100, 2)).kinds(), IsEmpty()) << release;
}

// What persists is gathered again when the step is over: it is up to date.
TEST(Audit, PersistentParamsAreUpToDate) {
  ShortFormOptions persisting = options(100);
  persisting.param_persistence_threshold_numel = 1000;
  for (const char* release : {"0.4.4", "0.5.10", "0.6.0", "0.9.5", "0.15.2", "0.19.8"})
    EXPECT_THAT(audited(release, "t:ABC t:ABC t:ABC", persisting).kinds(), IsEmpty()) << release;
}

// deepspeedai/DeepSpeed#7116: the count of a second forward is never taken back.
TEST(Audit, UnreleasedParamsOfTheStickyCount) {
  const std::string steps = "t:ABC t:ABC f:ABC f:ABC b s";
  for (const char* release : {"0.16.0", "0.16.4", "0.16.7"}) {
    const Audited run = audited(release, steps, options(100));
    ASSERT_THAT(run.kinds(), ElementsAre("unreleased-params")) << release;
    EXPECT_EQ(run.faults.front().consequence, Consequence::kMemory);
    EXPECT_EQ(run.faults.front().live_numel, 3 * 64);
    EXPECT_EQ(run.faults.front().params.size(), 3U);
  }
  for (const char* release : {"0.6.2", "0.15.4", "0.16.8", "0.19.8"})
    EXPECT_THAT(audited(release, steps, options(100)).kinds(), IsEmpty()) << release;
}

// Hooks registered again in each iteration, as TRL's generation does (deepspeedai/DeepSpeed#8043): from v0.19.2 on that
// invalidates the trace, and no trace lives long enough to prefetch by.
TEST(Audit, PrefetchDisabledByAStorm) {
  const std::string steps = "t:ABC r t:ABC r t:ABC r t:ABC r t:ABC";
  const Audited storm = audited("0.19.8", steps, options(100));
  ASSERT_THAT(storm.kinds(), ElementsAre("prefetch-disabled"));
  EXPECT_EQ(storm.faults.front().consequence, Consequence::kSlower);
  EXPECT_EQ(storm.faults.front().exposed_all_gathers_per_step, 6);  // three layers, forward and backward
  EXPECT_THAT(audited("0.19.8", steps, options(0)).kinds(), IsEmpty()) << "there is nothing to disable";
  EXPECT_THAT(audited("0.19.8", "t:ABC t:ABC t:ABC t:ABC", options(100)).kinds(), IsEmpty());
}

// A layer skipped once: from v0.15.3 on what was prefetched for it is released (#6557), and nothing else is lost.
TEST(Audit, PrefetchThrownAway) {
  const Audited once = audited("0.15.3", "t:ABC t:ABC t:AC t:ABC", options(100));
  ASSERT_THAT(once.kinds(), ElementsAre("prefetch-thrown-away"));
  EXPECT_EQ(once.faults.front().consequence, Consequence::kHarmless);
  EXPECT_THAT(once.faults.front().params, ElementsAre("C.weight"));  // B is not needed in that step
  EXPECT_EQ(once.faults.front().numel_per_step, 64 / 4.0);
  EXPECT_EQ(once.faults.front().all_gathers_per_step, 1 / 4.0);
  EXPECT_TRUE(audited("0.15.2", "t:ABC t:ABC t:AC t:ABC", options(100)).failed);
}

// Recorded, without prefetch: each layer is gathered in forward and in backward, but for the last, kept between.
TEST(Audit, Usage) {
  const Audited run = audited("0.15.2", "t:ABC", options(0));
  EXPECT_EQ(run.usage.optimizer_steps, 1);
  EXPECT_EQ(run.usage.all_gathers, 6);
  EXPECT_EQ(run.usage.gathered_numel, 6 * 64);
  EXPECT_EQ(run.usage.peak_live_numel, 64);
}

}  // namespace
}  // namespace zero3::sim
