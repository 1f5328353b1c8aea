// deepspeedai/DeepSpeed#3068, 2023-03-21, and Lightning-AI/pytorch-lightning#17523: a param in flight for another
// coordinator. AssertionError with the ds_summary of an embedding after an evaluation round; #3462 (v0.9.3) shares the
// registry.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3::test {
namespace {

// The training forward leaves B in flight; the evaluation coordinator, whose trace is complete, needs it.
constexpr const char* kEvaluateMeanwhile = "e:ABCD e:ABCD t:ABCD t:ABCD f:A e:ABCD";

TEST(DeepSpeed3068, EvaluationMeetsTheTrainingPrefetch) {
  for (const char* release : {"0.8.3", "0.9.2"}) {
    TestEngine engine(release, {.prefetch = 64});
    EXPECT_EQ(engine.run(kEvaluateMeanwhile), "NOTAVAIL(B INFLIGHT)") << release;
    EXPECT_THAT(engine.failure().message(),
                testing::StartsWith("AssertionError: {'id': 1, 'status': 'INFLIGHT', "
                                    "'numel': 64, 'ds_numel': 64"));
    EXPECT_THAT(engine.failure().message(), testing::HasSubstr("'active_sub_modules': {2}"));
  }
  EXPECT_THAT(outcome("0.9.3", kEvaluateMeanwhile, {.prefetch = 64}),
              testing::Not(testing::StartsWith("NOTAVAIL")));
}

}  // namespace
}  // namespace zero3::test
