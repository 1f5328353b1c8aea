// huggingface/transformers#47254, DeepSpeed#8130 and #8148, 2026-07: checkpointing recomputes a frozen norm of shape
// [0]. The recomputed forward's release frees the weight that the checkpoint still holds; kept from v0.19.3 on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3::test {
namespace {

const Config kBlock = {.model = model().activation("B").layer("B.n").layer("B.l").frozen("n"), .prefetch = 0};

// The order of n's release and l's recomputed forward, which comes after n's in the block.
bool released_inside_recompute(std::string_view release, const Config& config) {
  TestEngine engine(release, config);
  EXPECT_EQ(engine.run("t:B?[nl] f:B?[nl]"), "ok");
  const std::string log = engine.events("b");
  return log.find("REL n") < log.rfind("fetch(l)");
}

TEST(Transformers47254, FrozenWeightIsFreedTooEarlyUntilV0_19_2) {
  EXPECT_TRUE(released_inside_recompute("0.18.9", kBlock));
  EXPECT_TRUE(released_inside_recompute("0.19.2", kBlock));
  EXPECT_FALSE(released_inside_recompute("0.19.3", kBlock));
  EXPECT_FALSE(released_inside_recompute("0.19.8", kBlock));
}

TEST(Transformers47254, NothingIsLeftAfterTheBackward) {
  TestEngine engine("0.19.8", kBlock);
  ASSERT_EQ(engine.run("t:B?[nl] f:B?[nl] b"), "ok");
  EXPECT_EQ(engine.statuses(), "n=N l=N");
}

TEST(Transformers47254, PersistentParamIsNeverFreed) {
  Config config = kBlock;
  config.persist = 64;
  TestEngine engine("0.19.8", config);
  ASSERT_EQ(engine.run("t:B?[nl] t:B?[nl] f:B?[nl] b"), "ok");
  EXPECT_EQ(engine.statuses(), "n=A l=A");
}

}  // namespace
}  // namespace zero3::test
