// deepspeedai/DeepSpeed#7116, 2025-03: a 70B run out of memory on v0.16.0-v0.16.7: params are never released.
// #6726 stopped zeroing ds_grads_remaining at each forward; rolled back by #7258 (v0.16.8).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3::test {
namespace {

// A forward that is not back-propagated, then one that is.
TEST(DeepSpeed7116, ModulesStayActiveAfterBackward) {
  const auto after_backward = [](std::string_view release) {
    TestEngine engine(release, {.model = model().layers("ABC")});
    EXPECT_EQ(engine.run("t:ABC t:ABC f:ABC f:ABC b"), "ok");
    return engine.statuses();
  };
  for (const char* sticky : {"0.16.0", "0.16.4", "0.16.7"})
    EXPECT_EQ(after_backward(sticky), "A=A* B=A* C=A*") << sticky;
  for (const char* zeroed : {"0.15.4", "0.16.8", "0.19.8"})
    EXPECT_EQ(after_backward(zeroed).find('*'), std::string::npos) << zeroed;
}

TEST(DeepSpeed7116, StepReturnsThem) {
  TestEngine engine("0.16.4", {.model = model().layers("ABC")});
  EXPECT_EQ(engine.run("t:ABC t:ABC f:ABC f:ABC b s"), "ok");
  EXPECT_EQ(engine.statuses(), "A=N B=N C=N");
}

}  // namespace
}  // namespace zero3::test
