// deepspeedai/DeepSpeed#1351, 2021-09-28: the first checkpoint save in a notebook, "Cannot partition a param in
// flight". No repro in the thread. A gather context skips params in flight on entry and partitions them on exit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3::test {
namespace {

// A forward that stops after A leaves what was prefetched behind it in flight.
TEST(DeepSpeed1351, GatherOfEachLayerMeetsThePrefetchedOne) {
  for (const char* release : {"0.9.2", "0.14.4", "0.15.3", "0.19.4"}) {
    EXPECT_EQ(outcome(release, "t:ABCD t:ABCD f:A gm:A gm:B gm:C gm:D", {.prefetch = 64}), "CP(B INFLIGHT)")
        << release;
    EXPECT_EQ(outcome(release, "t:ABCD t:ABCD f:A gm:A gm:B gm:C gm:D", {.prefetch = 128}), "CP(C INFLIGHT)")
        << release;
  }
}

// All layers in A's own gather are available when A is.
TEST(DeepSpeed1351, BigBucketDoesNotReproduceIt) {
  for (const char* release : {"0.9.2", "0.14.4", "0.15.3", "0.19.4"})
    EXPECT_EQ(outcome(release, "t:ABCD t:ABCD f:A gm:B gm:C gm:D", {.prefetch = 1000}), "ok") << release;
}

TEST(DeepSpeed1351, PrologueThatPartitionsAllPasses) {
  for (const char* release : {"0.15.3", "0.19.4"})
    EXPECT_EQ(outcome(release, "t:ABCD t:ABCD f:A w", {.prefetch = 64}), "ok") << release;
}

}  // namespace
}  // namespace zero3::test
