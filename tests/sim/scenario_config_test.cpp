// deepspeed_config: the numbers that ds_config.json files hold, and what is said of those that this model cannot take.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/scenario/number.h"
#include "tests/sim/scenario_samples.h"

namespace zero3::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string with_zero(const std::string& keys) {
  return kThreeLayers + "program: [train]\ndeepspeed_config:\n  zero_optimization:\n    stage: 3\n    " +
         keys + "\n";
}

Settings settings_of(const std::string& text) { return scenario(text).settings; }

TEST(ScenarioConfig, WithoutOneDeepSpeedsDefaultsHold) {
  const Settings settings = settings_of(kThreeLayers + "program: [train]\n");
  EXPECT_EQ(settings.prefetch_bucket_numel, 50'000'000);
  EXPECT_EQ(settings.max_live_numel, 1'000'000'000);
  EXPECT_EQ(settings.gradient_accumulation_steps, 1);
}

TEST(ScenarioConfig, ReadsTheKeysOfAPastedDsConfigJson) {
  const Scenario pasted = scenario(kThreeLayers + R"(program: [train]
deepspeed_config: {
    "fp16": {"enabled": "auto", "loss_scale": 0},
    "bf16": {"enabled": "auto"},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto"}},
    "scheduler": {"type": "WarmupLR"},
    "zero_optimization": {
        "stage": 3,
        "overlap_comm": true,
        "contiguous_gradients": true,
        "sub_group_size": 1e9,
        "reduce_bucket_size": "auto",
        "offload_optimizer": {"device": "cpu", "pin_memory": true},
        "offload_param": {"device": "cpu"},
        "stage3_prefetch_bucket_size": 3e7,
        "stage3_param_persistence_threshold": "1e4",
        "stage3_max_live_parameters": 30_000_000,
        "stage3_max_reuse_distance": 1.5e9,
        "stage3_model_persistence_threshold": 9223372036854775807,
        "stage3_gather_16bit_weights_on_model_save": true
    },
    "gradient_accumulation_steps": 4,
    "gradient_clipping": "auto",
    "train_batch_size": "auto",
    "wall_clock_breakdown": false
}
)");
  EXPECT_EQ(pasted.settings.prefetch_bucket_numel, 30'000'000);
  EXPECT_EQ(pasted.settings.param_persistence_threshold_numel, 10'000);
  EXPECT_EQ(pasted.settings.max_live_numel, 30'000'000);
  EXPECT_EQ(pasted.settings.max_reuse_distance_numel, 1'500'000'000);
  EXPECT_EQ(pasted.settings.gradient_accumulation_steps, 4);
  EXPECT_TRUE(pasted.settings.gather_16bit_weights_on_model_save);
  EXPECT_THAT(pasted.notes, ElementsAre("fp16: enabled is \"auto\", taken as false",
                                        "offload_param: copies from host memory take no time here"));
}

TEST(ScenarioConfig, TheNamesOfOldReleasesAreUnderstood) {
  EXPECT_TRUE(settings_of(with_zero("stage3_gather_fp16_weights_on_model_save: true"))
                  .gather_16bit_weights_on_model_save);
}

TEST(ScenarioConfig, AutoIsRefusedWithWhatTheTrainerWouldPutThere) {
  EXPECT_EQ(error_of(with_zero("stage3_max_live_parameters: auto")),
            "x.yaml:7:33: error: \"auto\" for stage3_max_live_parameters is filled in by a trainer, and "
            "there is none here\n"
            "      stage3_max_live_parameters: auto\n"
            "                                  ^\n"
            "  DeepSpeed itself does not know \"auto\": write the number");
  const std::string head =
      "zero3sim: 1\nmodel: {preset: mlp, hidden_size: 1024}\nprogram: [train]\ndeepspeed_config:\n";
  EXPECT_EQ(error_of(head + "  zero_optimization: {stage: 3, stage3_prefetch_bucket_size: auto}\n"),
            "x.yaml:5:62: error: \"auto\" for stage3_prefetch_bucket_size is filled in by a trainer, and "
            "there is none here\n"
            "    zero_optimization: {stage: 3, stage3_prefetch_bucket_size: auto}\n"
            "                                                               ^\n"
            "  the Hugging Face Trainer puts int(0.9 * hidden_size * hidden_size) here: 943718 for this "
            "model's 1024");
  EXPECT_THAT(error_of(head + "  gradient_accumulation_steps: auto\n"),
              HasSubstr("the Hugging Face Trainer puts its own gradient_accumulation_steps here"));
}

TEST(ScenarioConfig, SizesThatCannotBe) {
  EXPECT_EQ(error_of(with_zero("stage3_max_reuse_distance: -1")),
            "x.yaml:7:32: error: stage3_max_reuse_distance is negative\n"
            "      stage3_max_reuse_distance: -1\n"
            "                                 ^\n"
            "  it counts: 0 or more");
  EXPECT_EQ(error_of(with_zero("stage3_max_reuse_distance: 0.5")),
            "x.yaml:7:32: error: stage3_max_reuse_distance is not a whole number\n"
            "      stage3_max_reuse_distance: 0.5\n"
            "                                 ^");
  EXPECT_EQ(error_of(with_zero("stage3_max_reuse_distance: 5e18")),
            "x.yaml:7:32: error: stage3_max_reuse_distance is too large\n"
            "      stage3_max_reuse_distance: 5e18\n"
            "                                 ^\n"
            "  at most 4611686018427387904");
  EXPECT_EQ(error_of(with_zero("stage3_max_reuse_distance: many")),
            "x.yaml:7:32: error: stage3_max_reuse_distance must be a number, not 'many'\n"
            "      stage3_max_reuse_distance: many\n"
            "                                 ^\n"
            "  for example 50_000_000 or 5e7");
}

TEST(ScenarioConfig, UnknownAndMisplacedKeys) {
  EXPECT_EQ(error_of(with_zero("stage3_prefetch_buket_size: 5")),
            "x.yaml:7:5: error: unknown key 'stage3_prefetch_buket_size' in zero_optimization\n"
            "      stage3_prefetch_buket_size: 5\n"
            "      ^\n"
            "  did you mean 'stage3_prefetch_bucket_size'?");
  EXPECT_EQ(error_of(kThreeLayers + "program: [train]\ndeepspeed_config: {stage3_prefetch_bucket_size: 5}\n"),
            "x.yaml:4:20: error: 'stage3_prefetch_bucket_size' belongs under zero_optimization\n"
            "  deepspeed_config: {stage3_prefetch_bucket_size: 5}\n"
            "                     ^\n"
            "  zero_optimization: {stage: 3, stage3_prefetch_bucket_size: ...}");
}

TEST(ScenarioConfig, WhatIsNotModelledIsRefusedUnlessItIsOff) {
  EXPECT_EQ(
      error_of(with_zero("stage3_module_granularity_threshold: 1000")),
      "x.yaml:7:42: error: stage3_module_granularity_threshold must be 0 here\n"
      "      stage3_module_granularity_threshold: 1000\n"
      "                                           ^\n"
      "  which modules it fetches whole is not computed here: name them under the model's leaf_modules");
  EXPECT_EQ(error_of(with_zero("stage3_module_granularity_threshold: 0")), "");
  EXPECT_EQ(error_of(with_zero("offload_param: {device: nvme}")),
            "x.yaml:7:29: error: offload_param to 'nvme' is not modelled\n"
            "      offload_param: {device: nvme}\n"
            "                              ^\n"
            "  cpu or none: the swapper of NVMe reads ahead by rules of its own");
}

TEST(ScenarioConfig, OnlyStage3) {
  EXPECT_EQ(error_of(kThreeLayers + "program: [train]\ndeepspeed_config: {zero_optimization: {stage: 2}}\n"),
            "x.yaml:4:47: error: stage must be 3\n"
            "  deepspeed_config: {zero_optimization: {stage: 2}}\n"
            "                                                ^\n"
            "  parameters are partitioned in stage 3 alone");
  EXPECT_THAT(error_of(kThreeLayers +
                       "program: [train]\ndeepspeed_config: {zero_optimization: {overlap_comm: true}}\n"),
              StartsWith("x.yaml:4:39: error: zero_optimization has no stage"));
}

TEST(ScenarioNumber, ExactWholeNumbers) {
  const auto value = [](std::string_view text) {
    const Number number = parse_number(text);
    EXPECT_EQ(number.kind, Number::Kind::kWhole) << text;
    return number.value;
  };
  EXPECT_EQ(value("0"), 0);
  EXPECT_EQ(value("5e8"), 500'000'000);
  EXPECT_EQ(value("5E+8"), 500'000'000);
  EXPECT_EQ(value("50_000_000"), 50'000'000);
  EXPECT_EQ(value("2.5e1"), 25);
  EXPECT_EQ(value("120e-1"), 12);
  EXPECT_EQ(value("7.0"), 7);
  EXPECT_EQ(value("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(value("0e999999999999999999999"), 0);
}

TEST(ScenarioNumber, WhatIsNone) {
  const auto kind = [](std::string_view text) { return parse_number(text).kind; };
  for (const char* text :
       {"", ".", "-", "e5", "5e", "5_", "_5", "5__0", "0x10", "1 2", "inf", "nan", "5e8e"}) {
    EXPECT_EQ(kind(text), Number::Kind::kNotANumber) << text;
  }
  EXPECT_EQ(kind("-5"), Number::Kind::kNegative);
  EXPECT_EQ(kind("1e-1"), Number::Kind::kFraction);
  EXPECT_EQ(kind("9223372036854775808"), Number::Kind::kTooLarge);
  EXPECT_EQ(kind("1e400"), Number::Kind::kTooLarge);
}

}  // namespace
}  // namespace zero3::sim
