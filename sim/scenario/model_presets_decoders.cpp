// The families of LLaMA: llama, mistral, qwen2, qwen3 and, with experts, mixtral, qwen2_moe, qwen3_moe. Sources:
// modeling_*.py of Hugging Face transformers (4.57 and 5.24). Version 5 holds all experts of a layer in two parameters.
#include <string>

#include "sim/scenario/model_presets_parts.h"

namespace zero3::sim {
namespace {

struct Decoder {
  std::string family;                // prefix of its classes
  std::string package = {};          // transformers.models.*; of those with experts
  bool qkv_bias = false;             // has biases whatever the config says
  bool qk_norm = false;              // norms queries and keys
  bool rotary_in_attention = false;  // of transformers 4: registered there too, never called
};

int add_attention(PresetMaker& make, int layer, const Decoder& decoder, const PresetSizes& sizes) {
  const int64_t width = size_of(sizes, "hidden_size");
  const int64_t head = size_of(sizes, "head_dim");
  const int64_t inner = head * size_of(sizes, "num_attention_heads");
  const int64_t key_value = head * size_of(sizes, "num_key_value_heads");
  const bool bias = flag_of(sizes, "attention_bias");
  const bool qkv_bias = bias || decoder.qkv_bias || flag_of(sizes, "qkv_bias");
  const bool sdpa = decoder.rotary_in_attention && !is_transformers_5(sizes);
  const int attention =
      make.module(layer, "self_attn", decoder.family + (sdpa ? "SdpaAttention" : "Attention"));
  const int q = make.linear(attention, "q_proj", width, inner, qkv_bias);
  const int k = make.linear(attention, "k_proj", width, key_value, qkv_bias);
  const int v = make.linear(attention, "v_proj", width, key_value, qkv_bias);
  const int o = make.linear(attention, "o_proj", inner, width, bias);
  if (sdpa) make.module(attention, "rotary_emb", decoder.family + "RotaryEmbedding");
  const std::string norm = decoder.family + "RMSNorm";
  const int q_norm = decoder.qk_norm ? make.rms_norm(attention, "q_norm", norm, head) : -1;
  const int k_norm = decoder.qk_norm ? make.rms_norm(attention, "k_norm", norm, head) : -1;
  make.forward(attention, {q, q_norm, k, k_norm, v, o});
  return attention;
}

int add_mlp(PresetMaker& make, int parent, const std::string& name, const std::string& type, int64_t inner,
            const PresetSizes& sizes) {
  const int64_t width = size_of(sizes, "hidden_size");
  const bool bias = flag_of(sizes, "mlp_bias");
  const int mlp = make.module(parent, name, type);
  const int gate = make.linear(mlp, "gate_proj", width, inner, bias);
  const int up = make.linear(mlp, "up_proj", width, inner, bias);
  const int down = make.linear(mlp, "down_proj", inner, width, bias);
  make.forward(mlp, {gate, make.module(mlp, "act_fn", "SiLUActivation"), up, down});
  return mlp;
}

// An expert of Mixtral before transformers 5.
void add_mixtral_expert(PresetMaker& make, int experts, const std::string& name, int64_t width,
                        int64_t inner) {
  const int expert = make.module(experts, name, "MixtralBlockSparseTop2MLP");
  const int w1 = make.linear(expert, "w1", width, inner);
  const int w2 = make.linear(expert, "w2", inner, width);
  const int w3 = make.linear(expert, "w3", width, inner);
  make.forward(expert, {w1, make.module(expert, "act_fn", "SiLUActivation"), w3, w2});
}

struct Experts {
  int gate;
  int experts;
};

int add_gate(PresetMaker& make, int block, const Decoder& decoder, const PresetSizes& sizes) {
  const int gate =
      make.module(block, "gate", is_transformers_5(sizes) ? decoder.family + "TopKRouter" : "Linear");
  make.model().add_param(gate, "weight", {experts_of(sizes), size_of(sizes, "hidden_size")});
  return gate;
}

Experts add_fused_experts(PresetMaker& make, int block, const Decoder& decoder, int64_t inner,
                          const PresetSizes& sizes) {
  const int64_t count = experts_of(sizes);
  const int64_t width = size_of(sizes, "hidden_size");
  const bool gate_last = decoder.family == "Qwen3Moe";
  const int gate = gate_last ? -1 : add_gate(make, block, decoder, sizes);
  const int experts = make.module(block, "experts", decoder.family + "Experts");
  make.model().add_param(experts, "gate_up_proj", {count, 2 * inner, width});
  make.model().add_param(experts, "down_proj", {count, width, inner});
  make.module(experts, "act_fn", "SiLUActivation");
  return {gate_last ? add_gate(make, block, decoder, sizes) : gate, experts};
}

Experts add_expert_list(PresetMaker& make, int block, const Decoder& decoder, int64_t inner,
                        const PresetSizes& sizes) {
  const int gate = add_gate(make, block, decoder, sizes);
  const int experts = make.list(block, "experts");
  for (int64_t i = 0; i < experts_of(sizes); ++i) {
    if (decoder.family == "Mixtral") {
      add_mixtral_expert(make, experts, std::to_string(i), size_of(sizes, "hidden_size"), inner);
    } else {
      add_mlp(make, experts, std::to_string(i), decoder.family + "MLP", inner, sizes);
    }
  }
  return {gate, experts};
}

int add_sparse_block(PresetMaker& make, int layer, const Decoder& decoder, const PresetSizes& sizes) {
  const bool fused = is_transformers_5(sizes);
  const bool mixtral = decoder.family == "Mixtral";
  const int64_t width = size_of(sizes, "hidden_size");
  const int64_t inner = size_of(sizes, mixtral ? "intermediate_size" : "moe_intermediate_size");
  const std::string type = decoder.family + "SparseMoeBlock";
  const int block = make.module(layer, mixtral && !fused ? "block_sparse_moe" : "mlp", type);
  make.model().module(block).qualified_type =
      "transformers.models." + decoder.package + ".modeling_" + decoder.package + "." + type;
  const Experts made = fused ? add_fused_experts(make, block, decoder, inner, sizes)
                             : add_expert_list(make, block, decoder, inner, sizes);
  int shared = -1;
  int shared_gate = -1;
  if (decoder.family == "Qwen2Moe") {
    shared = add_mlp(make, block, "shared_expert", "Qwen2MoeMLP",
                     size_of(sizes, "shared_expert_intermediate_size"), sizes);
    shared_gate = make.linear(block, "shared_expert_gate", width, 1);
  }
  if (fused) {
    make.forward(block, {shared, made.gate, made.experts, shared_gate});
    return block;
  }
  make.forward(block, {made.gate});
  make.then_draw(block, made.experts, size_of(sizes, "experts_per_step"), flag_of(sizes, "experts_per_rank"));
  if (shared >= 0) make.then(block, shared);
  if (shared >= 0) make.then(block, shared_gate);
  return block;
}

bool has_experts(const Decoder& decoder, int64_t layer, const PresetSizes& sizes) {
  if (decoder.package.empty()) return false;
  if (flag_of(sizes, "mlp_only_layers." + std::to_string(layer))) return false;
  const auto step = sizes.find("decoder_sparse_step");
  return step == sizes.end() || (layer + 1) % step->second == 0;
}

// embed_tokens, layers, norm, rotary_emb under `model`, lm_head beside it.
int build_decoder(ScenarioModel& model, int parent, const std::string& name, const PresetSizes& sizes,
                  const Decoder& decoder) {
  PresetMaker make(model);
  const std::string& family = decoder.family;
  const int64_t width = size_of(sizes, "hidden_size");
  const int root = make.module(parent, name, family + "ForCausalLM");
  const int body = make.module(root, "model", family + "Model");
  const int embedding = make.embedding(body, "embed_tokens", size_of(sizes, "vocab_size"), width);
  const int layers = make.list(body, "layers");
  for (int64_t i = 0; i < size_of(sizes, "num_hidden_layers"); ++i) {
    const int layer = make.module(layers, std::to_string(i), family + "DecoderLayer");
    const int attention = add_attention(make, layer, decoder, sizes);
    const int feed_forward =
        has_experts(decoder, i, sizes)
            ? add_sparse_block(make, layer, decoder, sizes)
            : add_mlp(make, layer, "mlp", family + "MLP", size_of(sizes, "intermediate_size"), sizes);
    const int input_norm = make.rms_norm(layer, "input_layernorm", family + "RMSNorm", width);
    const int post_norm = make.rms_norm(layer, "post_attention_layernorm", family + "RMSNorm", width);
    make.forward(layer, {input_norm, attention, post_norm, feed_forward});
  }
  const int norm = make.rms_norm(body, "norm", family + "RMSNorm", width);
  const int rotary = make.module(body, "rotary_emb", family + "RotaryEmbedding");
  make.forward(body, {embedding, rotary, layers, norm});
  make.head(root, sizes, embedding, width);
  return root;
}

}  // namespace

int build_llama(ScenarioModel& model, int parent, const std::string& name, const PresetSizes& sizes) {
  return build_decoder(model, parent, name, sizes, {.family = "Llama"});
}

int build_mistral(ScenarioModel& model, int parent, const std::string& name, const PresetSizes& sizes) {
  return build_decoder(model, parent, name, sizes, {.family = "Mistral"});
}

int build_qwen2(ScenarioModel& model, int parent, const std::string& name, const PresetSizes& sizes) {
  return build_decoder(model, parent, name, sizes, {.family = "Qwen2", .qkv_bias = true});
}

int build_qwen3(ScenarioModel& model, int parent, const std::string& name, const PresetSizes& sizes) {
  return build_decoder(model, parent, name, sizes, {.family = "Qwen3", .qk_norm = true});
}

int build_mixtral(ScenarioModel& model, int parent, const std::string& name, const PresetSizes& sizes) {
  return build_decoder(model, parent, name, sizes, {.family = "Mixtral", .package = "mixtral"});
}

int build_qwen2_moe(ScenarioModel& model, int parent, const std::string& name, const PresetSizes& sizes) {
  return build_decoder(model, parent, name, sizes,
                       {.family = "Qwen2Moe", .package = "qwen2_moe", .rotary_in_attention = true});
}

int build_qwen3_moe(ScenarioModel& model, int parent, const std::string& name, const PresetSizes& sizes) {
  return build_decoder(model, parent, name, sizes,
                       {.family = "Qwen3Moe", .package = "qwen3_moe", .qk_norm = true});
}

}  // namespace zero3::sim
