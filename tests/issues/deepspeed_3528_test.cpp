// deepspeedai/DeepSpeed#3528, 2023-05-12, and #4356: "already in registry" in DeepSpeed-Chat's third step.
// Another path partitioned a param whose handle the registry still holds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3::test {
namespace {

// One big bucket: root's prefetch brings A to D in one gather, the evaluation uses and releases them.
constexpr const char* kUsedBehindItsBack = "t:ABCD t:ABCD f:A e:ABCD f:ABCD";

TEST(DeepSpeed3528, RegistryStillHoldsWhatEvaluationReleased) {
  for (const char* release : {"0.9.2", "0.10.0", "0.12.6", "0.15.2"}) {
    TestEngine engine(release, {.prefetch = 1000});
    EXPECT_EQ(engine.run(kUsedBehindItsBack), "INREG(B INFLIGHT)") << release;
    EXPECT_THAT(engine.observer().printed(),
                testing::ElementsAre("Invalidate trace cache @ step 2: expected module 2, but got module 0"));
  }
}

TEST(DeepSpeed3528, OneRegistryOrACleanedOneDoesNot) {
  for (const char* release : {"0.15.3", "0.15.4", "0.19.4"})
    EXPECT_EQ(outcome(release, kUsedBehindItsBack, {.prefetch = 1000}), "ok") << release;
}

}  // namespace
}  // namespace zero3::test
