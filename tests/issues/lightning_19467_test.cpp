// Lightning-AI/pytorch-lightning#19467, 2024-02-13, DeepSpeed#7354 and others: "backward pass is invalid for module in
// evaluation mode". Some sub-modules were left in eval(); #6662 (v0.15.4) dropped the assert.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3::test {
namespace {

TEST(Lightning19467, OneModuleInEvalMode) {
  const auto outcome_of = [](std::string_view release) {
    TestEngine engine(release);
    engine.module("B").training = false;
    if (const Raised raised = engine.engine().forward(engine.plan("ABC"), true)) return raised->message();
    const Raised raised = engine.engine().backward();
    return raised ? raised->message() : std::string("ok");
  };
  for (const char* release : {"0.13.0", "0.15.2", "0.15.3"})
    EXPECT_EQ(outcome_of(release), "AssertionError: backward pass is invalid for module in evaluation mode")
        << release;
  for (const char* release : {"0.15.4", "0.16.4", "0.19.8"}) EXPECT_EQ(outcome_of(release), "ok") << release;
}

}  // namespace
}  // namespace zero3::test
