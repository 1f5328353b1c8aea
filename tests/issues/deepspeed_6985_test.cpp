// deepspeedai/DeepSpeed#6985, 2025-01-30: "cache has only 1 modules". A pass that returns before its children was
// recorded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3::test {
namespace {

TEST(DeepSpeed6985, OneModuleTrace) {
  for (const char* release : {"0.15.4", "0.16.3", "0.19.4"}) {
    TestEngine engine(release, {.log_warnings = true});
    for (int i = 0; i < 2; ++i) ASSERT_EQ(engine.engine().forward({}, false), nullptr);
    ASSERT_EQ(engine.run("f:AB"), "ok");
    EXPECT_THAT(
        engine.observer().printed(),
        testing::ElementsAre("Invalidate trace cache @ step 1 and module 1: cache has only 1 modules"))
        << release;
  }
}

}  // namespace
}  // namespace zero3::test
