// deepspeedai/DeepSpeed#5799, DeepSeek-V2#40, 2024-07-24: "disagreement between rank0 and rank1" in an evaluation.
// Other experts were visited on the two ranks while a forward was recorded; the collectives happened to match in size.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3::test {
namespace {

std::string failure_on_rank1(std::string_view release, const std::string& before,
                             const std::deque<std::vector<int64_t>>& of_rank0) {
  TestEngine engine(release, {.rank = 1, .world = 2});
  EXPECT_EQ(engine.run(before), "ok") << release;
  engine.ranks().rank0_answers = of_rank0;
  EXPECT_EQ(engine.run("e:AC"), "DISAGREE") << release;
  return engine.failure().message();
}

// v0.17.6 resets at the start of the next forward, v0.14.4 at the end of this one.
TEST(DeepSpeed5799, RankOneRaisesItsOwnList) {
  EXPECT_EQ(failure_on_rank1("0.14.4", "", {{0, 1, 2}}),
            "RuntimeError: disagreement between rank0 and rank1: rank0: [0, 1, 2], rank1: [0, 1, 3]");
  EXPECT_EQ(
      failure_on_rank1("0.17.6", "e:AC", {{3}, {0, 1, 2}}),
      "RuntimeError: Detected a disagreement on list contents between rank0 and rank1: \n list length: 3\n "
      "rank0: [0, 1, 2] \n rank1: [0, 1, 3]");
}

}  // namespace
}  // namespace zero3::test
