// deepspeedai/DeepSpeed#1903 and #1938, 2022-04-20: a run that v0.5.10 trains fails on v0.6.1.
// v0.6.0 assumed that the order never changes; #1901 (v0.6.2) and #1916 (v0.6.4) invalidate instead.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3::test {
namespace {

TEST(DeepSpeed1903, AnyDeviationRaisesInV0_6_0) {
  EXPECT_THAT(history("t:AB t:AB t:BA", {.prefetch = 1}),
              testing::MatchesRegex("ok \\| 0.5.11-dev TE\\(.*\\) \\| 0.6.2 ok"));
}

// #1938: a module with its own params and children, as minGPT's embedding tables at the root, fails until v0.6.3.
TEST(DeepSpeed1903, ModuleWithOwnParamsAndChildren) {
  const Config mingpt = {.model = model().root_params({{8, 8}}).layers("AB"), .prefetch = 0};
  EXPECT_THAT(outcome("0.6.3", "t:AB t:AB", mingpt), testing::StartsWith("TE("));
  for (const char* release : {"0.5.10", "0.6.0", "0.6.4", "0.19.8"})
    EXPECT_EQ(outcome(release, "t:AB t:AB", mingpt), "ok") << release;
}

TEST(DeepSpeed1903, TextIsOneLine) {
  TestEngine engine("0.6.1", {.prefetch = 0});
  engine.run("t:ABC t:ABC t:AC");
  EXPECT_EQ(engine.failure().text.find('\n'), std::string::npos);
  EXPECT_EQ(engine.failure().text.find("ds_tensor"), std::string::npos);
}

}  // namespace
}  // namespace zero3::test
