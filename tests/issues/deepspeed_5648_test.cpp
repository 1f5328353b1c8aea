// deepspeedai/DeepSpeed#5648, huggingface/trl#1732, LlamaFactory#3852, 2024-06: KTO's evaluation with adapters switched
// off. The adapters' weights were prefetched from the trace with adapters; the reference pass never visits them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3::test {
namespace {

ModelBuilder adapted_layer() {
  return model()
      .activation("L")
      .layer("L.w")
      .layer("L.a", {{4096, 8}})
      .layer("L.b", {{8, 4096}})
      .frozen("wab");
}

constexpr const char* kAdaptersOff = "e:L[wab] e:L[wab] e:L[w]";

TEST(DeepSpeed5648, BothAdaptersAreNamed) {
  const Config config = {.model = adapted_layer(), .prefetch = 100'000};
  for (const char* release : {"0.9.2", "0.13.0", "0.14.3", "0.15.2"})
    EXPECT_THAT(outcome(release, kAdaptersOff, config), testing::MatchesRegex("IF\\(a [A-Z]*, b [A-Z]*\\)"))
        << release;
  for (const char* release : {"0.15.3", "0.15.4", "0.19.8"})
    EXPECT_EQ(outcome(release, kAdaptersOff, config), "ok");
}

TEST(DeepSpeed5648, ShardsTellTheNumberOfRanks) {
  const auto text = [](int world) {
    TestEngine engine("0.14.3", {.model = adapted_layer(), .prefetch = 100'000, .world = world});
    engine.run(kAdaptersOff);
    return engine.failure().text;
  };
  EXPECT_THAT(text(1), testing::HasSubstr("'ds_tensor.shape': torch.Size([32768])"));
  EXPECT_THAT(text(3), testing::HasSubstr("'ds_tensor.shape': torch.Size([10923])"));
}

TEST(DeepSpeed5648, BucketZeroIsTheWorkaround) {
  EXPECT_EQ(outcome("0.14.3", kAdaptersOff, {.model = adapted_layer(), .prefetch = 0}), "ok");
}

}  // namespace
}  // namespace zero3::test
