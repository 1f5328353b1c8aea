// deepspeedai/DeepSpeed#4922, 2024-01-09: no_grad forwards in train mode never reset the training coordinator.
// No crash: step numbers and the recorded order grow. #6662 (v0.15.4).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3::test {
namespace {

TEST(DeepSpeed4922, TrainingCoordinatorCountsOn) {
  const auto last_step = [](std::string_view release) {
    TestEngine engine(release);
    EXPECT_EQ(engine.run("F:AB F:AB F:AB F:AB F:AB"), "ok");
    return engine.observer().all(EventKind::kFetch).back().step;
  };
  for (const char* release : {"0.9.5", "0.14.4", "0.15.3"}) EXPECT_EQ(last_step(release), 14) << release;
  EXPECT_EQ(last_step("0.15.4"), 2);
}

}  // namespace
}  // namespace zero3::test
