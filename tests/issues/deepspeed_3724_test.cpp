// deepspeedai/DeepSpeed#3724, DeepSpeedExamples#591, 2023-06: DeepSpeed-Chat's third step fails after some steps.
// The registry shared by training and evaluation since #3462: v0.9.3-v0.9.5 alone. #3884 and #3819 (v0.10.0) cured it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3::test {
namespace {

// A training forward stops after its first layer; the evaluation itself prefetches nothing.
TEST(DeepSpeed3724, OnlyTheSharedRegistryRaises) {
  const std::string program = "t:ABC t:ABC f:A e:A";
  for (const char* release : {"0.9.3", "0.9.4", "0.9.5"})
    EXPECT_THAT(outcome(release, program, {.prefetch = 1}), testing::StartsWith("IF(B")) << release;
  for (const char* release : {"0.9.2", "0.10.0", "0.14.4", "0.15.3", "0.15.4", "0.19.4"})
    EXPECT_EQ(outcome(release, program, {.prefetch = 1}), "ok") << release;
}

// The hybrid engine gave GatheredParameters a list with duplicates; #3819 removes them.
TEST(DeepSpeed3724, GatherWithDuplicates) {
  for (const char* release : {"0.9.2", "0.10.0", "0.19.3"})
    EXPECT_EQ(outcome(release, "gm:AA", {.world = 2}), "ok") << release;
  EXPECT_EQ(outcome("0.9.2", "gm:AA"), "GATHER(A INFLIGHT)")
      << "one rank copies, and refuses a param in flight";
  EXPECT_EQ(outcome("0.10.0", "gm:AA"), "ok");
}

}  // namespace
}  // namespace zero3::test
