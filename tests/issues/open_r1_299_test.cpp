// huggingface/open-r1#299, X-R1#23, 2025-02: GRPO gathers all params for generation after a backward without its step.
// The embedding is tied with the head; "active_sub_modules" names the embedding.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3::test {
namespace {

Config tied() {
  return {
      .model = model().layers("EB").activation("H").tied("H", "E"), .accumulation = 2, .input_grad = false};
}

// Three micro-batches an epoch under an accumulation of two.
constexpr const char* kEpochThenGenerate = "t:EBH t:EBH t:EBH gm:EB";

TEST(OpenR1_299, EmbeddingIsStillActive) {
  for (const char* release : {"0.14.4", "0.15.4", "0.16.4"}) {
    TestEngine engine(release, tied());
    EXPECT_EQ(engine.run(kEpochThenGenerate), "FREE(E AVAILABLE)") << release;
    EXPECT_THAT(engine.failure().text, testing::HasSubstr("'active_sub_modules': {1}")) << release;
  }
  EXPECT_EQ(outcome("0.19.4", kEpochThenGenerate, tied()), "ok");
}

}  // namespace
}  // namespace zero3::test
