// huggingface/trl#4899, #4693, accelerate#3386, DeepSpeed#8043, 2025: "pop from an empty deque".
// Hooks registered again while a recording is pending: the recorded steps are under the old ids. #8043 (v0.19.2).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3::test {
namespace {

// Generation of a PEFT model does not enter the engine's root.
constexpr const char* kTwoCycles = "h t:AB h t:AB";

TEST(Trl4899, RaisesInTheSecondCycle) {
  for (const char* release : {"0.15.4", "0.16.4", "0.19.1"}) {
    TestEngine engine(release);
    EXPECT_EQ(engine.run(kTwoCycles), "IDX") << release;
    EXPECT_EQ(engine.failure().message(), "IndexError: pop from an empty deque");
    EXPECT_THAT(engine.failure().path,
                testing::ElementsAre("forward", "_start_of_forward_hook", "reset_step",
                                     "construct_parameter_trace_from_module_trace", "record_parameters"));
  }
}

TEST(Trl4899, PassesBeforeAndAfter) {
  for (const char* release : {"0.15.3", "0.19.2", "0.19.4"})
    EXPECT_EQ(outcome(release, kTwoCycles), "ok") << release;
}

}  // namespace
}  // namespace zero3::test
