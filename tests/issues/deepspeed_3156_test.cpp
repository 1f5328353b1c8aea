// deepspeedai/DeepSpeed#3156, 2023-04-06: architecture search, another sub-network at each step.
// The text changed its form in v0.10.0 (#3819).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3::test {
namespace {

constexpr const char* kAnotherSubNetwork = "t:ABD t:ABD t:ACD";

TEST(DeepSpeed3156, RaisesUntilV0_15_2) {
  for (const char* release : {"0.6.4", "0.8.3", "0.9.5", "0.10.0", "0.15.2"})
    EXPECT_THAT(outcome(release, kAnotherSubNetwork), testing::StartsWith("IF(B ")) << release;
  for (const char* release : {"0.15.3", "0.15.4", "0.19.8"})
    EXPECT_EQ(outcome(release, kAnotherSubNetwork), "ok");
}

// AVAILABLE if a sibling of its gather was waited for, INFLIGHT if nothing was.
TEST(DeepSpeed3156, StatusTellsWhetherASiblingWasWaitedFor) {
  EXPECT_EQ(outcome("0.15.2", kAnotherSubNetwork, {.prefetch = 100}), "IF(B AVAILABLE)");
  EXPECT_EQ(outcome("0.15.2", kAnotherSubNetwork, {.prefetch = 1}), "IF(B INFLIGHT)");
}

TEST(DeepSpeed3156, TextIsBoundMethodsThenDicts) {
  const auto text = [](std::string_view release) {
    TestEngine engine(release);
    engine.run(kAnotherSubNetwork);
    return engine.failure().text;
  };
  EXPECT_THAT(text("0.8.3"),
              testing::StartsWith("still have inflight params [<bound method "
                                  "Init._convert_to_deepspeed_param.<locals>.ds_summary of Parameter "
                                  "containing:\n"));
  EXPECT_THAT(text("0.10.0"), testing::StartsWith("still have inflight params [{'id': 1, 'status':"));
}

}  // namespace
}  // namespace zero3::test
