// deepspeedai/DeepSpeed#7525, 2025-08-29: lists of different length stall the very check that should find the
// difference. From v0.17.6 the lengths are compared first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3::test {
namespace {

// Rank 1 leaves out a module without params while the pass is recorded.
TEST(DeepSpeed7525, LengthsAreComparedFirst) {
  TestEngine engine("0.17.6",
                    {.model = model().layers("A").activation("R").layers("B"), .rank = 1, .world = 2});
  ASSERT_EQ(engine.run("t:AB"), "ok");
  engine.ranks().rank0_answers = {{8}};
  EXPECT_EQ(engine.run("t:AB"), "DISAGREE");
  EXPECT_EQ(engine.failure().message(),
            "RuntimeError: Detected a disagreement on list length between rank0 and rank1: \n rank0: 8 \n "
            "rank1: 6");
  EXPECT_THAT(engine.failure().path, testing::Contains("assert_lst_len_same_as_other_ranks"));
}

TEST(DeepSpeed7525, BeforeTheListsMeetInOneBroadcast) {
  TestEngine engine("0.17.5",
                    {.model = model().layers("A").activation("R").layers("B"), .rank = 1, .world = 2});
  ASSERT_EQ(engine.run("t:AB"), "ok");
  engine.ranks().clear();
  engine.ranks().hang_in("broadcast_ints [0, 1, 3, 0, 3, 1]");
  EXPECT_EQ(engine.run("t:AB"), "HANG");
}

}  // namespace
}  // namespace zero3::test
