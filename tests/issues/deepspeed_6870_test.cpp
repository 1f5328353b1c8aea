// deepspeedai/DeepSpeed#6870, LlamaFactory#6760, 2024-12-14: DPO with LoRA, two invalidation lines at each step.
// Two sequences of modules share the one coordinator of v0.15.4: each pass invalidates the other's trace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3::test {
namespace {

const Config kAdapted = {.model = model().layers("A").layer("A.x").layers("B"), .prefetch = 0};

std::vector<std::string> printed_in_six_loops(std::string_view release, bool warn) {
  Config config = kAdapted;
  config.log_warnings = warn;
  TestEngine engine(release, config);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(engine.run("f:A[x]B F:AB b s"), "ok");
  return engine.observer().printed();
}

TEST(DeepSpeed6870, OneLineALoopFromV0_15_4) {
  for (const char* release : {"0.15.4", "0.19.4"}) {
    const auto printed = printed_in_six_loops(release, true);
    EXPECT_EQ(printed.size(), 6U) << release;
    for (const std::string& line : printed) EXPECT_EQ(line, printed.front());
  }
}

TEST(DeepSpeed6870, SilentInTrainModeUntilV0_15_3) {
  EXPECT_TRUE(printed_in_six_loops("0.14.4", false).empty());
}

// #7039 (v0.16.4).
TEST(DeepSpeed6870, SilencedByDefaultFromV0_16_4) {
  EXPECT_FALSE(printed_in_six_loops("0.16.3", false).empty());
  EXPECT_TRUE(printed_in_six_loops("0.16.4", false).empty());
}

}  // namespace
}  // namespace zero3::test
