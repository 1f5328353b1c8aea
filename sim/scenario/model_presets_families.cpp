// Presets: mlp, and the families gpt (GPT-2) and t5. Sources: modeling_gpt2.py, modeling_t5.py of Hugging Face
// transformers (4.57 and 5.24), whose class, module and parameter names and registration order these functions follow.
#include <string>

#include "sim/scenario/model_presets_parts.h"

namespace zero3::sim {
namespace {

// A feed-forward layer of T5: its norm, its two or three matrices, its dropout.
void add_t5_feed_forward(PresetMaker& make, int layers, const std::string& name, const PresetSizes& sizes) {
  const int64_t width = size_of(sizes, "d_model");
  const int64_t inner = size_of(sizes, "d_ff");
  const bool gated = size_of(sizes, "feed_forward_proj") != 0;
  const int layer = make.module(layers, name, "T5LayerFF");
  const int dense = make.module(layer, "DenseReluDense", gated ? "T5DenseGatedActDense" : "T5DenseActDense");
  const int wi = make.linear(dense, gated ? "wi_0" : "wi", width, inner);
  const int wi_1 = gated ? make.linear(dense, "wi_1", width, inner) : -1;
  const int wo = make.linear(dense, "wo", inner, width);
  const int dropout = make.module(dense, "dropout", "Dropout");
  const int act = make.module(dense, "act", gated ? "NewGELUActivation" : "ReLU");
  make.forward(dense, {wi, act, wi_1, dropout, wo});
  const int norm = make.rms_norm(layer, "layer_norm", "T5LayerNorm", width);
  make.forward(layer, {norm, dense, make.module(layer, "dropout", "Dropout")});
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
  int embedding = shared;
  if (is_transformers_5(sizes)) {  // a module of its own, with the same weight
    embedding = make.module(stack, "embed_tokens", "Embedding");
    make.tie_weight(embedding, shared);
  } else {
    make.model().share(stack, "embed_tokens", shared);
  }
  const int block_list = make.list(stack, "block");
  for (int64_t i = 0; i < blocks; ++i) {
    const int layers = make.list(make.module(block_list, std::to_string(i), "T5Block"), "layer");
    add_t5_attention(make, layers, "0", false, i == 0, sizes);
    if (decoder) add_t5_attention(make, layers, "1", true, false, sizes);
    add_t5_feed_forward(make, layers, decoder ? "2" : "1", sizes);
  }
  const int norm = make.rms_norm(stack, "final_layer_norm", "T5LayerNorm", width);
  const int dropout = make.module(stack, "dropout", "Dropout");
  make.forward(stack, {embedding, dropout, block_list, norm, dropout});
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
  make.head(root, sizes, tokens, width);
  return root;
}

int build_t5(ScenarioModel& model, int parent, const std::string& name, const PresetSizes& sizes) {
  PresetMaker make(model);
  const int64_t width = size_of(sizes, "d_model");
  const int root = make.module(parent, name, "T5ForConditionalGeneration");
  const int shared = make.embedding(root, "shared", size_of(sizes, "vocab_size"), width);
  const int encoder = add_t5_stack(make, root, "encoder", shared, size_of(sizes, "num_layers"), sizes);
  const int decoder =
      add_t5_stack(make, root, "decoder", shared, size_of(sizes, "num_decoder_layers"), sizes);
  PresetSizes head = sizes;
  if (is_transformers_5(sizes)) head["tie_word_embeddings"] = 1;  // it ties whatever the config says
  make.forward(root, {encoder, decoder, make.head(root, head, shared, width)});
  return root;
}

}  // namespace zero3::sim
