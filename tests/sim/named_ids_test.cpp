// Ids in DeepSpeed's own words, and the names beside them.
#include "sim/report/named_ids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace zero3::sim {
namespace {

Recording recording() {
  Recording made;
  made.module_names = {{2, "act"}, {3, "fc2"}, {19, "model.layers.0.mlp.experts.3"}};
  return made;
}

TEST(NamedIds, OfEveryWording) {
  EXPECT_EQ(
      module_names_in("Invalidate trace cache @ step 3: expected module 3, but got module 2", recording()),
      "module 3 = fc2, module 2 = act");
  EXPECT_EQ(module_names_in("tracing error at step 4: \nmodule id: 19, training: True", recording()),
            "module 19 = model.layers.0.mlp.experts.3");
  EXPECT_EQ(module_names_in("{'id': 3, 'active_sub_modules': {2, 19}, 'x': {3}}", recording()),
            "module 2 = act, module 19 = model.layers.0.mlp.experts.3");
}

TEST(NamedIds, OfTextsThatShowNone) {
  EXPECT_EQ(
      module_names_in("still have inflight params [{'id': 2, 'active_sub_modules': set()}]", recording()),
      "");
  EXPECT_EQ(module_names_in("module 7, module -3, module x, module ", recording()), "");
}

TEST(NamedIds, EachOnceAndNotMoreThanALineHolds) {
  EXPECT_EQ(module_names_in("module 3 module 3", recording()), "module 3 = fc2");
  Recording many;
  std::string text;
  for (int id = 0; id < 10; ++id) {
    many.module_names[id] = "m" + std::to_string(id);
    text += "module " + std::to_string(id) + " ";
  }
  EXPECT_THAT(module_names_in(text, many), testing::EndsWith("module 7 = m7 and 2 more"));
}

TEST(NamedIds, ARecordingNamesWhatItSaw) {
  EXPECT_EQ(recording().module_text(3), "fc2 (module 3)");
  EXPECT_EQ(recording().module_text(4), "module 4");
}

}  // namespace
}  // namespace zero3::sim
