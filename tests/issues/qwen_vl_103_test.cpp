// QwenLM/Qwen-VL#103, 2023-10-07, DeepSpeed#8375: a param of no elements is never gathered.
// The fetch asks how many elements are missing (#3784, v0.10.0): none are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3::test {
namespace {

TEST(QwenVl103, ModuleWithNothingElseAsserts) {
  TestEngine engine("0.10.3", {.model = model().layer("A", {{0, 8}}).layers("B")});
  EXPECT_EQ(engine.run("t:AB"), "NOTAVAIL(A NOT_AVAILABLE)");
  EXPECT_THAT(engine.failure().text,
              testing::StartsWith("{'id': 0, 'status': 'NOT_AVAILABLE', 'numel': 0, 'ds_numel': "
                                  "0, 'shape': (0,), 'ds_shape': (0, 8)"));
}

TEST(QwenVl103, NormalParamBesideItBringsItAlong) {
  for (const char* release : {"0.10.3", "0.15.2", "0.19.8"})
    EXPECT_EQ(outcome(release, "t:AB", {.model = model().layer("A", {{0, 8}, {8, 8}}).layers("B")}), "ok")
        << release;
}

}  // namespace
}  // namespace zero3::test
