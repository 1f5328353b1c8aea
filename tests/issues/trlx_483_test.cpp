// CarperAI/trlx#483, 2023-05-22: "expected to be released" when everything is partitioned.
// A param is in flight for the coordinator of the other mode.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3::test {
namespace {

// An evaluation forward stops after A; the step asks the training coordinator.
TEST(Trlx483, ParamOfTheOtherCoordinator) {
  const auto ends = [](std::string_view release) {
    TestEngine engine(release, {.model = model().layers("ABCD"), .prefetch = 64});
    EXPECT_EQ(engine.run("tb:ABCD e:ABCD e:ABCD E:A"), "ok") << release;
    engine.engine().train(true);
    return engine.run("s");
  };
  for (const char* release : {"0.9.2", "0.10.0", "0.14.4", "0.15.2", "0.15.3"})
    EXPECT_EQ(ends(release), "ETBR(B INFLIGHT)") << release;
  for (const char* release : {"0.9.3", "0.9.5"}) EXPECT_EQ(ends(release), "SIF(B INFLIGHT)") << release;
  for (const char* release : {"0.15.4", "0.19.4"}) EXPECT_EQ(ends(release), "ok") << release;
}

}  // namespace
}  // namespace zero3::test
