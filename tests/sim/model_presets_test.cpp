// Presets against what their libraries build. Totals: the published parameter counts of the models of those sizes.
#include "sim/scenario/model_presets.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/scenario_samples.h"

namespace zero3::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Scenario preset(const std::string& keys) {
  return scenario("zero3sim: 1\nprogram: [train]\nmodel: {" + keys + "}\n");
}

const ModuleSpec& at(const ScenarioModel& model, std::string_view path) {
  const int index = model.find(0, path);
  EXPECT_GE(index, 0) << path;
  return model.module(index);
}

TEST(ModelPresets, TotalsAreTheLibrariesOwn) {
  EXPECT_EQ(preset("preset: gpt").model.total_numel(), 124'439'808);         // gpt2
  EXPECT_EQ(preset("preset: llama").model.total_numel(), 6'738'415'616);     // Llama-2-7b
  EXPECT_EQ(preset("preset: t5").model.total_numel(), 60'506'624);           // t5-small
  EXPECT_EQ(preset("preset: mixtral").model.total_numel(), 46'702'792'704);  // Mixtral-8x7B
  EXPECT_EQ(preset("preset: mlp, hidden_size: 8, num_layers: 3").model.total_numel(), 3 * 72);
  EXPECT_EQ(preset("preset: llama, hidden_size: 8192, intermediate_size: 28672, num_hidden_layers: 80, "
                   "num_attention_heads: 64, num_key_value_heads: 8")
                .model.total_numel(),
            68'976'648'192);  // Llama-2-70b
}

TEST(ModelPresets, LlamaCallsItsNormsFirst) {
  const Scenario llama = preset(
      "preset: llama, hidden_size: 64, intermediate_size: 128, num_hidden_layers: 1, num_attention_heads: 4, "
      "num_key_value_heads: 2, vocab_size: 100");
  const std::string layer = "model.layers.0";
  EXPECT_THAT(at(llama.model, "model.layers.0.self_attn.k_proj").params[0].shape, ElementsAre(32, 64));
  EXPECT_THAT(at(llama.model, "model.layers.0.mlp.down_proj").params[0].shape, ElementsAre(64, 128));
  EXPECT_EQ(forwards_of(llama.experiment()),
            "model[model.embed_tokens model.rotary_emb " + layer + "[" + layer + ".input_layernorm " + layer +
                ".self_attn[" + layer + ".self_attn.q_proj " + layer + ".self_attn.k_proj " + layer +
                ".self_attn.v_proj " + layer + ".self_attn.o_proj] " + layer + ".post_attention_layernorm " +
                layer + ".mlp[" + layer + ".mlp.gate_proj " + layer + ".mlp.act_fn " + layer +
                ".mlp.up_proj " + layer + ".mlp.down_proj]] model.norm] lm_head\n");
}

TEST(ModelPresets, T5RegistersItsEmbeddingThreeTimesAndTiesItsHead) {
  const ScenarioModel t5 =
      preset("preset: t5, num_layers: 1, d_model: 16, d_kv: 4, num_heads: 4, d_ff: 32, vocab_size: 50").model;
  const int shared = t5.find(0, "shared");
  EXPECT_EQ(t5.find(0, "encoder.embed_tokens"), shared);
  EXPECT_EQ(t5.find(0, "decoder.embed_tokens"), shared);
  EXPECT_EQ(at(t5, "lm_head").params[0].tied_module, shared);
  EXPECT_EQ(at(t5, "encoder.block.0.layer.0.SelfAttention").children.size(),
            5u);  // the first block has the bias
  EXPECT_EQ(at(t5, "decoder.block.0.layer.1.EncDecAttention").children.size(), 4u);
  EXPECT_THAT(at(t5, "decoder.block.0.layer.2.DenseReluDense.wo").params[0].shape, ElementsAre(16, 32));
}

TEST(ModelPresets, MixtralDrawsItsExperts) {
  const std::string keys =
      "preset: mixtral, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: "
      "4, "
      "num_key_value_heads: 2, vocab_size: 50, num_local_experts: 4";
  const Scenario common = preset(keys);
  const Experiment experiment = common.experiment(2, 5);
  const std::vector<PlannedCall>& layer = experiment.rank_programs[0][0].ops[1].plan[0].children[2].children;
  ASSERT_EQ(layer.size(), 4u);
  EXPECT_EQ(layer[3].children.size(), 3u);  // the gate and two experts
  EXPECT_EQ(forwards_of(experiment, 0), forwards_of(experiment, 1));
  EXPECT_NE(forwards_of(experiment), forwards_of(common.experiment(2, 6)));
  const Experiment own = preset(keys + ", experts_per_rank: true").experiment(2, 5);
  EXPECT_NE(forwards_of(own, 0), forwards_of(own, 1));
}

TEST(ModelPresets, LoraWrapsItsTargetsAndFreezesTheRest) {
  const ScenarioModel lora = preset(
                                 "preset: lora, base: llama, r: 4, hidden_size: 64, intermediate_size: 128, "
                                 "num_hidden_layers: 1, num_attention_heads: 4, vocab_size: 100")
                                 .model;
  const std::string q = "base_model.model.model.layers.0.self_attn.q_proj";
  EXPECT_EQ(lora.module(0).type, "PeftModelForCausalLM");
  EXPECT_THAT(at(lora, q + ".base_layer").params[0].shape, ElementsAre(64, 64));
  EXPECT_FALSE(at(lora, q + ".base_layer").params[0].requires_grad);
  EXPECT_THAT(at(lora, q + ".lora_A.default").params[0].shape, ElementsAre(4, 64));
  EXPECT_TRUE(at(lora, q + ".lora_A.default").params[0].requires_grad);
  EXPECT_THAT(at(lora, q + ".lora_B.default").params[0].shape, ElementsAre(64, 4));
  EXPECT_EQ(lora.find(0, "base_model.model.model.layers.0.self_attn.k_proj.lora_A"), -1);
  EXPECT_FALSE(at(lora, "base_model.model.lm_head").params[0].requires_grad);
}

TEST(ModelPresets, SizedByParameters) {
  const ScenarioModel model = preset("preset: llama, parameters: 7e9").model;
  EXPECT_EQ(model.hidden_size, 4096);
  EXPECT_EQ(model.total_numel(), 6'738'415'616);
  const std::optional<int64_t> total =
      preset("preset: mixtral, parameters: 1e9, vocab_size: 1000").model.total_numel();
  EXPECT_GT(total, 600'000'000);
  EXPECT_LT(total, 1'500'000'000);
}

TEST(ModelPresets, GradientCheckpointingWrapsTheLayers) {
  const Experiment experiment = preset(
                                    "preset: gpt, n_embd: 8, n_layer: 2, vocab_size: 10, n_positions: 4, "
                                    "gradient_checkpointing: reentrant")
                                    .experiment();
  const std::vector<PlannedCall>& body = experiment.rank_programs[0][0].ops[1].plan[0].children;
  EXPECT_EQ(body[0].checkpointing, Checkpointing::kNone);
  EXPECT_EQ(body[3].checkpointing, Checkpointing::kReentrant);
  EXPECT_EQ(body[4].checkpointing, Checkpointing::kReentrant);
}

TEST(ModelPresets, SizesThatCannotBe) {
  const std::string head = "zero3sim: 1\nprogram: [train]\n";
  EXPECT_EQ(error_of(head + "model: {preset: lama}\n"),
            "x.yaml:3:17: error: unknown preset 'lama'\n"
            "  model: {preset: lama}\n"
            "                  ^\n"
            "  did you mean 'llama'?");
  EXPECT_EQ(error_of(head + "model: {preset: gpt, n_layers: 2}\n"),
            "x.yaml:3:22: error: unknown key 'n_layers' in a gpt model\n"
            "  model: {preset: gpt, n_layers: 2}\n"
            "                       ^\n"
            "  did you mean 'n_layer'?");
  EXPECT_THAT(error_of(head + "model: {preset: llama, num_attention_heads: 7}\n"),
              HasSubstr("hidden_size 4096 is not a multiple of num_attention_heads 7"));
  EXPECT_THAT(error_of(head + "model: {preset: mixtral, experts_per_step: 9}\n"),
              HasSubstr("experts_per_step 9 of num_local_experts 8"));
  EXPECT_THAT(error_of(head + "model: {preset: gpt, n_embd: 0}\n"), HasSubstr("n_embd is 0"));
  EXPECT_THAT(error_of(head + "model: {preset: gpt, n_layer: 1e9}\n"),
              HasSubstr("the model has too many layers"));
  EXPECT_THAT(error_of(head + "model: {preset: lora, base: gpt, target_modules: [q_proj]}\n"),
              HasSubstr("target_modules matches no linear layer"));
}

}  // namespace
}  // namespace zero3::sim
