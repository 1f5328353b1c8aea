// deepspeedai/DeepSpeed#1748 and #1749, 2022-02-08: load_checkpoint, then save_checkpoint, without training in between.
// The untagged master's prologue looked at the recorded trace; #1750 walks all params (v0.6.0).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3::test {
namespace {

TEST(DeepSpeed1748, LifecyclesWithoutTrainingPass) {
  for (const char* program : {"l c", "c c", "w w", "e:AB c", "l e:AB c", "t:AB c l c"}) {
    for (const char* release : {"0.5.10", "0.6.0", "0.9.2", "0.15.2", "0.19.8"})
      EXPECT_EQ(outcome(release, program), "ok") << program << " on " << release;
  }
}

TEST(DeepSpeed1748, PersistentParamsComeBack) {
  TestEngine engine("0.6.0", {.persist = 65});
  EXPECT_EQ(engine.run("l c"), "ok");
  EXPECT_EQ(engine.status("A"), "A");
}

}  // namespace
}  // namespace zero3::test
