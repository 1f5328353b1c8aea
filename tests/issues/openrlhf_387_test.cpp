// OpenRLHF/OpenRLHF#387 and #312, 2024: a forward-only reference model whose pass skips a block of four near its end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3::test {
namespace {

TEST(OpenRlhf387, SkippedBlockIsFiveIdsFurther) {
  TestEngine engine("0.13.0", {.model = model().layers("ABCDEFGHIJKLMNOPQRST"), .optimizer = false});
  EXPECT_THAT(engine.run("eo:ABCDEFGHIJKLMNOPQRST eo:ABCDEFGHIJKLMNOPQRST eo:ABCDEFGHIJKLMNOT"),
              testing::StartsWith("IF("));
  EXPECT_THAT(
      engine.observer().printed(),
      testing::ElementsAre("Invalidate trace cache @ step 16: expected module 16, but got module 20"));
  EXPECT_THAT(engine.failure().path, testing::Contains("_end_of_forward_hook"));
}

TEST(OpenRlhf387, CleanFromV0_15_3) {
  const Config config = {.model = model().layers("ABCDEFGHIJKLMNOPQRST"), .optimizer = false};
  EXPECT_EQ(outcome("0.15.3", "eo:ABCDEFGHIJKLMNOPQRST eo:ABCDEFGHIJKLMNOPQRST eo:ABCDEFGHIJKLMNOT", config),
            "ok");
}

}  // namespace
}  // namespace zero3::test
