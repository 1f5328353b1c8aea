// deepspeedai/DeepSpeed#4808, 2023-12-13: Mixtral's generate under ZeRO-3 inference; which experts run differs by
// token. Workaround: the block as a leaf module (#4966, v0.13.0).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3::test {
namespace {

ModelBuilder moe_layer() {
  return model().activation("L").layer("L.r").layer("L.w").layer("L.x").layer("L.y").layer("L.z").layers("H");
}

constexpr const char* kTokens = "eo:L[rwx]H eo:L[rwx]H eo:L[rwz]H";

TEST(DeepSpeed4808, UnroutedExpertStaysInFlight) {
  EXPECT_EQ(history(kTokens, {.model = moe_layer(), .optimizer = false}),
            "ok | 0.6.2 IF(x AVAILABLE) | 0.15.3 ok");
}

TEST(DeepSpeed4808, LeafBlockIsClean) {
  for (const char* release : {"0.13.0", "0.14.4", "0.15.2", "0.19.8"}) {
    TestEngine engine(release, {.model = moe_layer().leaf("L"), .optimizer = false});
    EXPECT_EQ(engine.run(kTokens), "ok") << release;
    EXPECT_TRUE(engine.observer().all(EventKind::kInvalidate).empty()) << release;
  }
}

}  // namespace
}  // namespace zero3::test
