// haotian-liu/LLaVA#1583, 2024: collecting weights after training ends on an accumulation's middle.
// A module whose input needs no grad never runs its post-backward hook: its id stays active. #8148 (v0.19.3) drains.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3::test {
namespace {

// A frozen tower, a projector behind it, a language model.
Config tower() {
  return {.model = model().layers("TPL").frozen("T"), .accumulation = 2, .input_grad = false};
}

TEST(Llava1583, ProjectorIsStillActive) {
  EXPECT_EQ(history("t:TPL gm:P", tower()), "ok | 0.5.11-dev FREE(P AVAILABLE) | 0.19.3 ok");
}

TEST(Llava1583, TextsOfBothForms) {
  const auto message = [](std::string_view release) {
    TestEngine engine(release, tower());
    engine.run("t:TPL gm:P");
    return engine.failure().message();
  };
  EXPECT_THAT(message("0.12.6"), testing::StartsWith("AssertionError: {'id': 1, 'status': 'AVAILABLE'"));
  EXPECT_THAT(message("0.12.6"), testing::HasSubstr("'active_sub_modules': {2}"));
  EXPECT_THAT(message("0.18.5"),
              testing::StartsWith("RuntimeError: Cannot free a ZeRO-3 parameter while it is still "
                                  "active in submodules."));
}

TEST(Llava1583, AfterAStepItPasses) {
  Config config = tower();
  config.accumulation = 1;
  EXPECT_EQ(history("t:TPL gm:P", config), "ok");
}

}  // namespace
}  // namespace zero3::test
