// The families of presets. Sources: modeling_gpt2.py, modeling_llama.py, modeling_mixtral.py, modeling_t5.py of Hugging
// Face transformers (4.x), whose class, module and parameter names and registration order these functions follow.
#include <string>

#include "sim/scenario/model_presets_parts.h"

namespace zero3::sim {
namespace {

struct Attention {
  int64_t width;
  int64_t key_value_width;
};

Attention attention_of(const PresetSizes& sizes) {
  const int64_t width = size_of(sizes, "hidden_size");
  const int64_t head = width / size_of(sizes, "num_attention_heads");
  return {width, head * size_of(sizes, "num_key_value_heads")};
}

int add_attention(PresetMaker& make, int layer, const std::string& type, const Attention& sizes) {
  const int attention = make.module(layer, "self_attn", type);
  make.linear(attention, "q_proj", sizes.width, sizes.width);
  make.linear(attention, "k_proj", sizes.width, sizes.key_value_width);
  make.linear(attention, "v_proj", sizes.width, sizes.key_value_width);
  make.linear(attention, "o_proj", sizes.width, sizes.width);
  return attention;
}

// embed_tokens, layers, norm, rotary_emb under `model`, lm_head beside it: LLaMA, Mixtral and their kin.
template <typename AddLayer>
int build_decoder_only(ScenarioModel& model, int parent, const std::string& name, const std::string& family,
                       const PresetSizes& sizes, AddLayer add_layer) {
  PresetMaker make(model);
  const int64_t width = size_of(sizes, "hidden_size");
  const int64_t vocabulary = size_of(sizes, "vocab_size");
  const int root = make.module(parent, name, family + "ForCausalLM");
  const int body = make.module(root, "model", family + "Model");
  const int embedding = make.embedding(body, "embed_tokens", vocabulary, width);
  const int layers = make.list(body, "layers");
  for (int64_t i = 0; i < size_of(sizes, "num_hidden_layers"); ++i) {
    const int layer = make.module(layers, std::to_string(i), family + "DecoderLayer");
    const int attention = add_attention(make, layer, family + "Attention", attention_of(sizes));
    const int feed_forward = add_layer(make, layer);
    const int input_norm = make.rms_norm(layer, "input_layernorm", family + "RMSNorm", width);
    const int post_norm = make.rms_norm(layer, "post_attention_layernorm", family + "RMSNorm", width);
    make.forward(layer, {input_norm, attention, post_norm, feed_forward});
  }
  const int norm = make.rms_norm(body, "norm", family + "RMSNorm", width);
  const int rotary = make.module(body, "rotary_emb", family + "RotaryEmbedding");
  make.forward(body, {embedding, rotary, layers, norm});
  if (size_of(sizes, "tie_word_embeddings") != 0) {
    make.tie_weight(make.module(root, "lm_head", "Linear"), embedding);
  } else {
    make.linear(root, "lm_head", width, vocabulary);
  }
  return root;
}

// A feed-forward layer of T5: its norm, its two matrices, its dropout.
int add_t5_feed_forward(PresetMaker& make, int layers, const std::string& name, int64_t width,
                        int64_t inner) {
  const int layer = make.module(layers, name, "T5LayerFF");
  const int dense = make.module(layer, "DenseReluDense", "T5DenseActDense");
  const int wi = make.linear(dense, "wi", width, inner);
  const int wo = make.linear(dense, "wo", inner, width);
  const int dropout = make.module(dense, "dropout", "Dropout");
  const int act = make.module(dense, "act", "ReLU");
  make.forward(dense, {wi, act, dropout, wo});
  const int norm = make.rms_norm(layer, "layer_norm", "T5LayerNorm", width);
  make.forward(layer, {norm, dense, make.module(layer, "dropout", "Dropout")});
  return layer;
}

void add_t5_attention(PresetMaker& make, int layers, const std::string& name, bool cross, bool bias,
                      const PresetSizes& sizes) {
  const int64_t width = size_of(sizes, "d_model");
  const int64_t inner = size_of(sizes, "num_heads") * size_of(sizes, "d_kv");
  const int layer = make.module(layers, name, cross ? "T5LayerCrossAttention" : "T5LayerSelfAttention");
  const int attention = make.module(layer, cross ? "EncDecAttention" : "SelfAttention", "T5Attention");
  const int q = make.linear(attention, "q", width, inner);
  const int k = make.linear(attention, "k", width, inner);
  const int v = make.linear(attention, "v", width, inner);
  const int o = make.linear(attention, "o", inner, width);
  make.forward(attention, {q, k, v, o});
  if (bias) {
    const int buckets =
        make.embedding(attention, "relative_attention_bias", size_of(sizes, "relative_attention_num_buckets"),
                       size_of(sizes, "num_heads"));
    make.forward(attention, {q, k, v, buckets, o});
  }
  const int norm = make.rms_norm(layer, "layer_norm", "T5LayerNorm", width);
  make.forward(layer, {norm, attention, make.module(layer, "dropout", "Dropout")});
}

int add_t5_stack(PresetMaker& make, int root, const std::string& name, int shared, int64_t blocks,
                 const PresetSizes& sizes) {
  const bool decoder = name == "decoder";
  const int64_t width = size_of(sizes, "d_model");
  const int stack = make.module(root, name, "T5Stack");
  make.model().share(stack, "embed_tokens", shared);
  const int block_list = make.list(stack, "block");
  for (int64_t i = 0; i < blocks; ++i) {
    const int layers = make.list(make.module(block_list, std::to_string(i), "T5Block"), "layer");
    add_t5_attention(make, layers, "0", false, i == 0, sizes);
    if (decoder) add_t5_attention(make, layers, "1", true, false, sizes);
    add_t5_feed_forward(make, layers, decoder ? "2" : "1", width, size_of(sizes, "d_ff"));
  }
  const int norm = make.rms_norm(stack, "final_layer_norm", "T5LayerNorm", width);
  const int dropout = make.module(stack, "dropout", "Dropout");
  make.forward(stack, {shared, dropout, block_list, norm, dropout});
  return stack;
}

}  // namespace

int build_mlp(ScenarioModel& model, int parent, const std::string& name, const PresetSizes& sizes) {
  PresetMaker make(model);
  const int root = make.module(parent, name, "Sequential");
  const int64_t width = size_of(sizes, "hidden_size");
  const int64_t layers = size_of(sizes, "num_layers");
  int next = 0;
  for (int64_t i = 0; i < layers; ++i) {
    const int64_t in = i == 0 ? size_of(sizes, "input_size") : width;
    const int64_t out = i == layers - 1 ? size_of(sizes, "output_size") : width;
    make.linear(root, std::to_string(next++), in, out, true);
    if (i < layers - 1) make.module(root, std::to_string(next++), "ReLU");
  }
  return root;
}

int build_gpt(ScenarioModel& model, int parent, const std::string& name, const PresetSizes& sizes) {
  PresetMaker make(model);
  const int64_t width = size_of(sizes, "n_embd");
  const int64_t inner = size_of(sizes, "n_inner");
  const int root = make.module(parent, name, "GPT2LMHeadModel");
  const int body = make.module(root, "transformer", "GPT2Model");
  const int tokens = make.embedding(body, "wte", size_of(sizes, "vocab_size"), width);
  const int positions = make.embedding(body, "wpe", size_of(sizes, "n_positions"), width);
  const int drop = make.module(body, "drop", "Dropout");
  const int blocks = make.list(body, "h");
  for (int64_t i = 0; i < size_of(sizes, "n_layer"); ++i) {
    const int block = make.module(blocks, std::to_string(i), "GPT2Block");
    const int first_norm = make.layer_norm(block, "ln_1", width);
    const int attention = make.module(block, "attn", "GPT2Attention");
    const int c_attn = make.conv1d(attention, "c_attn", width, 3 * width);
    const int c_proj = make.conv1d(attention, "c_proj", width, width);
    make.module(attention, "attn_dropout", "Dropout");  // scaled_dot_product_attention does its work
    make.forward(attention, {c_attn, c_proj, make.module(attention, "resid_dropout", "Dropout")});
    const int second_norm = make.layer_norm(block, "ln_2", width);
    const int mlp = make.module(block, "mlp", "GPT2MLP");
    const int c_fc = make.conv1d(mlp, "c_fc", width, inner);
    const int out = make.conv1d(mlp, "c_proj", inner, width);
    const int act = make.module(mlp, "act", "NewGELUActivation");
    make.forward(mlp, {c_fc, act, out, make.module(mlp, "dropout", "Dropout")});
    make.forward(block, {first_norm, attention, second_norm, mlp});
  }
  const int norm = make.layer_norm(body, "ln_f", width);
  make.forward(body, {tokens, positions, drop, blocks, norm});
  if (size_of(sizes, "tie_word_embeddings") != 0) {
    make.tie_weight(make.module(root, "lm_head", "Linear"), tokens);
  } else {
    make.linear(root, "lm_head", width, size_of(sizes, "vocab_size"));
  }
  return root;
}

int build_llama(ScenarioModel& model, int parent, const std::string& name, const PresetSizes& sizes) {
  const int64_t width = size_of(sizes, "hidden_size");
  const int64_t inner = size_of(sizes, "intermediate_size");
  const auto add_mlp = [&](PresetMaker& make, int layer) {
    const int mlp = make.module(layer, "mlp", "LlamaMLP");
    const int gate = make.linear(mlp, "gate_proj", width, inner);
    const int up = make.linear(mlp, "up_proj", width, inner);
    const int down = make.linear(mlp, "down_proj", inner, width);
    make.forward(mlp, {gate, make.module(mlp, "act_fn", "SiLU"), up, down});
    return mlp;
  };
  return build_decoder_only(model, parent, name, "Llama", sizes, add_mlp);
}

int build_mixtral(ScenarioModel& model, int parent, const std::string& name, const PresetSizes& sizes) {
  const int64_t width = size_of(sizes, "hidden_size");
  const int64_t inner = size_of(sizes, "intermediate_size");
  const int64_t expert_count = size_of(sizes, "num_local_experts");
  const auto add_experts = [&](PresetMaker& make, int layer) {
    const int moe = make.module(layer, "block_sparse_moe", "MixtralSparseMoeBlock");
    const int gate = make.linear(moe, "gate", width, expert_count);
    const int experts = make.list(moe, "experts");
    for (int64_t i = 0; i < expert_count; ++i) {
      const int expert = make.module(experts, std::to_string(i), "MixtralBlockSparseTop2MLP");
      const int w1 = make.linear(expert, "w1", width, inner);
      const int w2 = make.linear(expert, "w2", inner, width);
      const int w3 = make.linear(expert, "w3", width, inner);
      make.forward(expert, {w1, make.module(expert, "act_fn", "SiLU"), w3, w2});
    }
    make.forward_then_draw(moe, gate, experts, size_of(sizes, "experts_per_step"),
                           size_of(sizes, "experts_per_rank") != 0);
    return moe;
  };
  return build_decoder_only(model, parent, name, "Mixtral", sizes, add_experts);
}

int build_t5(ScenarioModel& model, int parent, const std::string& name, const PresetSizes& sizes) {
  PresetMaker make(model);
  const int64_t width = size_of(sizes, "d_model");
  const int64_t vocabulary = size_of(sizes, "vocab_size");
  const int root = make.module(parent, name, "T5ForConditionalGeneration");
  const int shared = make.embedding(root, "shared", vocabulary, width);
  const int encoder = add_t5_stack(make, root, "encoder", shared, size_of(sizes, "num_layers"), sizes);
  const int decoder =
      add_t5_stack(make, root, "decoder", shared, size_of(sizes, "num_decoder_layers"), sizes);
  const bool tied = size_of(sizes, "tie_word_embeddings") != 0;
  const int head =
      tied ? make.module(root, "lm_head", "Linear") : make.linear(root, "lm_head", width, vocabulary);
  if (tied) make.tie_weight(head, shared);
  make.forward(root, {encoder, decoder, head});
  return root;
}

}  // namespace zero3::sim
