// huggingface/transformers#16688, 2022-04-11: M2M100's LayerDrop. Cured there by running every layer and discarding the
// result.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3::test {
namespace {

TEST(Transformers16688, SkippedLayerByRelease) {
  EXPECT_THAT(outcome("0.6.1", "t:ABCD t:ABCD t:ABD", {.prefetch = 0}), testing::StartsWith("TE("));
  for (const char* release : {"0.6.4", "0.15.2"})
    EXPECT_THAT(outcome(release, "t:ABCD t:ABCD t:ABD"), testing::StartsWith("IF(C")) << release;
  for (const char* release : {"0.15.3", "0.19.8"})
    EXPECT_EQ(outcome(release, "t:ABCD t:ABCD t:ABD"), "ok") << release;
}

// The discarded layer has no backward, so its training passes are one shape, run after run.
TEST(Transformers16688, RunAndDiscardIsClean) {
  for (const char* release : {"0.6.4", "0.15.2", "0.19.8"}) {
    EXPECT_EQ(outcome(release, "t:ABC_D t:ABC_D t:ABC_D"), "ok") << release;
  }
}

}  // namespace
}  // namespace zero3::test
