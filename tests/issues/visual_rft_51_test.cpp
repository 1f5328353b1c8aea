// Liuziyu77/Visual-RFT#51, VLM-R1#304, R1-V#131, open-r1#119, 2025: "cache has only 0 modules", module ids that grow.
// Hooks are registered again each cycle, root forwards in between finish an empty trace. #8043 (v0.19.2) invalidates.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3::test {
namespace {

std::vector<std::string> printed_in_three_cycles(std::string_view release, int tokens) {
  TestEngine engine(release, {.model = model().layers("AB"), .log_warnings = true});
  for (int cycle = 0; cycle < 3; ++cycle) {
    EXPECT_EQ(engine.engine().unwrap_enter(), nullptr);
    for (int token = 0; token < tokens; ++token)
      EXPECT_EQ(engine.engine().forward(engine.plan("AB"), false), nullptr);
    EXPECT_EQ(engine.engine().unwrap_exit(), nullptr);
    EXPECT_EQ(engine.run("t:AB"), "ok") << release;
  }
  return engine.observer().printed();
}

TEST(VisualRft51, IdsGrowByTheNumberOfModulesMinusOne) {
  for (const char* release : {"0.15.4", "0.16.4", "0.19.1"}) {
    EXPECT_THAT(
        printed_in_three_cycles(release, 2),
        testing::ElementsAre("Invalidate trace cache @ step 0 and module 2: cache has only 0 modules",
                             "Invalidate trace cache @ step 0 and module 4: cache has only 0 modules",
                             "Invalidate trace cache @ step 0 and module 6: cache has only 0 modules"))
        << release;
  }
}

TEST(VisualRft51, SilentFromV0_19_2) {
  for (const char* release : {"0.19.2", "0.19.4"})
    EXPECT_THAT(printed_in_three_cycles(release, 3), testing::IsEmpty()) << release;
}

}  // namespace
}  // namespace zero3::test
