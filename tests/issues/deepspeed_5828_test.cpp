// deepspeedai/DeepSpeed#5828, 2024-08-05: training fails with "still have inflight params" once a layer is left out.
// fc1, act, [fc2 if a flag of the batch is set], act, fc3. Cured by #6557 (v0.15.3); workaround: prefetch bucket 0.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3::test {
namespace {

ModelBuilder conditional_middle_layer() {
  // the activation is one object, called twice
  return model()
      .layer("A", {{1024, 1024}})
      .activation("R")
      .layer("C", {{1024, 1024}})
      .layer("D", {{1, 1024}});
}

// The reporter's settings: 3e7 elements of bucket and live limit, persistence 1e4 (D's 1024 elements persist).
const Config kAsReported = {
    .model = conditional_middle_layer(), .prefetch = 30'000'000, .live = 30'000'000, .persist = 10'000};

constexpr const char* kFlagOff = "t:ARCRD t:ARCRD t:ARRD";

TEST(DeepSpeed5828, RaisesUntilV0_15_2) {
  EXPECT_EQ(history(kFlagOff, kAsReported), "ok | 0.5.11-dev IF(C AVAILABLE) | 0.15.3 ok");
}

TEST(DeepSpeed5828, InvalidationNamesTheModules) {
  TestEngine engine("0.15.2", kAsReported);
  engine.run(kFlagOff);
  EXPECT_THAT(engine.observer().printed(),
              testing::ElementsAre("Invalidate trace cache @ step 3: expected module 3, but got module 2"));
}

TEST(DeepSpeed5828, GatheredAloneItIsInflightWithAllItsElements) {
  Config config = kAsReported;
  config.prefetch = 1;
  TestEngine engine("0.15.2", config);
  EXPECT_EQ(engine.run(kFlagOff), "IF(C INFLIGHT)");
  EXPECT_THAT(engine.failure().text, testing::HasSubstr("'numel': 1048576, 'ds_numel': 1048576"));
}

TEST(DeepSpeed5828, BucketZeroOnlyInvalidates) {
  Config config = kAsReported;
  config.prefetch = 0;
  for (const char* release : {"0.9.2", "0.10.0", "0.14.4", "0.15.2", "0.15.3", "0.19.4"}) {
    TestEngine engine(release, config);
    EXPECT_EQ(engine.run(kFlagOff), "ok") << release;
    EXPECT_EQ(engine.observer().all(EventKind::kInvalidate).size(), 1U) << release;
  }
}

// The other workaround of the thread: run the layer always, and discard its result.
TEST(DeepSpeed5828, RunningTheLayerAndDiscardingItsResultIsClean) {
  EXPECT_EQ(outcome("0.15.2", "F:ARCRD F:ARCRD F:ARC_RD", kAsReported), "ok");
}

}  // namespace
}  // namespace zero3::test
