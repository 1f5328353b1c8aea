// The one table of families: their sizes as the config classes of Hugging Face transformers have them, which of them
// are width, depth and heads, and what must hold between them. probe/zero3probe/scenario/presets.py has its twin.
#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "sim/scenario/model_presets_parts.h"

namespace zero3::sim {
namespace {

using Kind = PresetSize::Kind;

const PresetSize kTransformers = {"transformers", 4};
const PresetSize kTied = {"tie_word_embeddings", 1, Kind::kFlag};
const PresetSize kUntied = {"tie_word_embeddings", 0, Kind::kFlag};

using Sizes = std::vector<PresetSize>;

Sizes joined(Sizes first, const Sizes& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// What every family of LLaMA has. `key_value_heads` and `head_dim` -1: as they follow.
struct DecoderSizes {
  int64_t hidden_size;
  int64_t intermediate_size;
  int64_t layers;
  int64_t heads;
  int64_t key_value_heads;
  int64_t head_dim;
  int64_t vocabulary;
};

Sizes decoder_sizes(const DecoderSizes& sizes, const Sizes& more) {
  return joined({{"hidden_size", sizes.hidden_size},
                 {"intermediate_size", sizes.intermediate_size},
                 {"num_hidden_layers", sizes.layers},
                 {"num_attention_heads", sizes.heads},
                 {"num_key_value_heads", sizes.key_value_heads},
                 {"head_dim", sizes.head_dim},
                 {"vocab_size", sizes.vocabulary}},
                joined(more, {kUntied, kTransformers}));
}

Sizes expert_sizes(std::string_view count, int64_t experts, int64_t per_token, const Sizes& more) {
  return joined({{count, experts},
                 {"experts_per_step", -1},
                 {"num_experts_per_tok", per_token},
                 {"experts_per_rank", 0, Kind::kFlag}},
                more);
}

std::string nothing_to_check(const PresetSizes& /*sizes*/) { return ""; }

std::string not_a_multiple(const PresetSizes& sizes, std::string_view whole, std::string_view part) {
  const int64_t parts = size_of(sizes, part);
  if (parts != 0 && size_of(sizes, whole) % parts == 0) return "";
  return fmt::format("{} {} is not a multiple of {} {}", whole, size_of(sizes, whole), part, parts);
}

std::string check_gpt(const PresetSizes& sizes) { return not_a_multiple(sizes, "n_embd", "n_head"); }
std::string check_bloom(const PresetSizes& sizes) { return not_a_multiple(sizes, "hidden_size", "n_head"); }
std::string check_opt(const PresetSizes& sizes) {
  return not_a_multiple(sizes, "hidden_size", "num_attention_heads");
}

// A head_dim of its own need not fit the width.
std::string check_heads(const PresetSizes& sizes) {
  const int64_t heads = size_of(sizes, "num_attention_heads");
  const bool own = heads != 0 && size_of(sizes, "head_dim") != size_of(sizes, "hidden_size") / heads;
  if (!own) {
    if (std::string wrong = not_a_multiple(sizes, "hidden_size", "num_attention_heads"); !wrong.empty())
      return wrong;
  }
  return not_a_multiple(sizes, "num_attention_heads", "num_key_value_heads");
}

std::string check_experts(const PresetSizes& sizes) {
  const int64_t drawn = size_of(sizes, "experts_per_step");
  const int64_t experts = experts_of(sizes);
  const char* count = sizes.find("num_experts") != sizes.end() ? "num_experts" : "num_local_experts";
  if (drawn < 1 || drawn > experts) return fmt::format("experts_per_step {} of {} {}", drawn, count, experts);
  return check_heads(sizes);
}

// A family of LLaMA.
Preset decoder(std::string_view name, std::string_view architecture, const DecoderSizes& sizes,
               const Sizes& more, BuildPreset* build, std::string (*check)(const PresetSizes&)) {
  return {name,
          "hidden_size",
          "num_hidden_layers",
          "num_attention_heads",
          "intermediate_size",
          decoder_sizes(sizes, more),
          build,
          check,
          {"q_proj", "v_proj"},
          name,
          architecture};
}

std::vector<Preset> decoders() {
  const PresetSize attention_bias = {"attention_bias", 0, Kind::kFlag};
  const Sizes sparse = {{"moe_intermediate_size", 768},
                        {"decoder_sparse_step", 1},
                        {"mlp_only_layers", 0, Kind::kLayers},
                        attention_bias};
  const Sizes sparse_and_shared = {{"moe_intermediate_size", 1408},
                                   {"shared_expert_intermediate_size", 5632},
                                   {"decoder_sparse_step", 1},
                                   {"mlp_only_layers", 0, Kind::kLayers},
                                   {"qkv_bias", 1, Kind::kFlag}};
  return {
      decoder("llama", "LlamaForCausalLM", {4096, 11008, 32, 32, -1, -1, 32000},
              {attention_bias, {"mlp_bias", 0, Kind::kFlag}}, build_llama, check_heads),
      decoder("mistral", "MistralForCausalLM", {4096, 14336, 32, 32, 8, -1, 32000}, {}, build_mistral,
              check_heads),
      decoder("qwen2", "Qwen2ForCausalLM", {4096, 22016, 32, 32, 32, -1, 151936}, {}, build_qwen2,
              check_heads),
      decoder("qwen3", "Qwen3ForCausalLM", {4096, 22016, 32, 32, 32, 128, 151936}, {attention_bias},
              build_qwen3, check_heads),
      decoder("mixtral", "MixtralForCausalLM", {4096, 14336, 32, 32, 8, -1, 32000},
              expert_sizes("num_local_experts", 8, 2, {}), build_mixtral, check_experts),
      decoder("qwen2_moe", "Qwen2MoeForCausalLM", {2048, 5632, 24, 16, 16, -1, 151936},
              expert_sizes("num_experts", 60, 4, sparse_and_shared), build_qwen2_moe, check_experts),
      decoder("qwen3_moe", "Qwen3MoeForCausalLM", {2048, 6144, 24, 32, 4, -1, 151936},
              expert_sizes("num_experts", 128, 8, sparse), build_qwen3_moe, check_experts),
  };
}

Preset opt() {
  return {"opt",
          "hidden_size",
          "num_hidden_layers",
          "num_attention_heads",
          "ffn_dim",
          {{"hidden_size", 768},
           {"ffn_dim", 3072},
           {"num_hidden_layers", 12},
           {"num_attention_heads", 12},
           {"vocab_size", 50272},
           {"max_position_embeddings", 2048},
           {"word_embed_proj_dim", -1},
           {"do_layer_norm_before", 1, Kind::kFlag},
           {"_remove_final_layer_norm", 0, Kind::kFlag},
           {"enable_bias", 1, Kind::kFlag},
           {"layer_norm_elementwise_affine", 1, Kind::kFlag},
           kTied,
           kTransformers},
          build_opt,
          check_opt,
          {"q_proj", "v_proj"},
          "opt",
          "OPTForCausalLM"};
}

std::vector<Preset> others() {
  return {
      {"mlp",
       "hidden_size",
       "num_layers",
       "",
       "",
       {{"hidden_size", 1024}, {"num_layers", 4}, {"input_size", -1}, {"output_size", -1}},
       build_mlp,
       nothing_to_check,
       {},
       "",
       ""},
      {"gpt",
       "n_embd",
       "n_layer",
       "",
       "",
       {{"n_embd", 768},
        {"n_layer", 12},
        {"n_head", -1},
        {"n_inner", -1},
        {"vocab_size", 50257},
        {"n_positions", 1024},
        kTied,
        kTransformers},
       build_gpt,
       check_gpt,
       {"c_attn"},
       "gpt2",
       "GPT2LMHeadModel"},
      {"bloom",
       "hidden_size",
       "n_layer",
       "n_head",
       "",
       {{"hidden_size", 64}, {"n_layer", 2}, {"n_head", 8}, {"vocab_size", 250880}, kTied, kTransformers},
       build_bloom,
       check_bloom,
       {"query_key_value"},
       "bloom",
       "BloomForCausalLM"},
      {"t5",
       "d_model",
       "num_layers",
       "num_heads",
       "d_ff",
       {{"d_model", 512},
        {"d_kv", 64},
        {"d_ff", 2048},
        {"num_layers", 6},
        {"num_heads", 8},
        {"num_decoder_layers", -1},
        {"vocab_size", 32128},
        {"relative_attention_num_buckets", 32},
        {"feed_forward_proj", 0, Kind::kWord, {"relu", "gated-gelu"}},
        kTied,
        kTransformers},
       build_t5,
       nothing_to_check,
       {"q", "v"},
       "t5",
       "T5ForConditionalGeneration"},
  };
}

std::vector<Preset> all_presets() {
  std::vector<Preset> all = others();
  for (Preset& preset : decoders()) all.push_back(std::move(preset));
  all.push_back(opt());
  return all;
}

}  // namespace

std::span<const Preset> model_presets() {
  static const std::vector<Preset> kPresets = all_presets();
  return kPresets;
}

const Preset* find_preset(std::string_view name) {
  const std::span<const Preset> presets = model_presets();
  const auto found = std::ranges::find(presets, name, &Preset::name);
  return found == presets.end() ? nullptr : &*found;
}

}  // namespace zero3::sim
