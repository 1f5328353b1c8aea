// The families opt and bloom. Sources: modeling_opt.py, modeling_bloom.py of Hugging Face transformers (4.57 and 5.24).
#include <string>

#include "sim/scenario/model_presets_parts.h"

namespace zero3::sim {
namespace {

// Without parameters where layer_norm_elementwise_affine is off.
int opt_norm(PresetMaker& make, int parent, const std::string& name, const PresetSizes& sizes) {
  if (!flag_of(sizes, "layer_norm_elementwise_affine")) return make.module(parent, name, "LayerNorm");
  return make.layer_norm(parent, name, size_of(sizes, "hidden_size"));
}

void add_opt_layer(PresetMaker& make, int layers, const std::string& name, const PresetSizes& sizes) {
  const int64_t width = size_of(sizes, "hidden_size");
  const int64_t inner = size_of(sizes, "ffn_dim");
  const bool bias = flag_of(sizes, "enable_bias");
  const int layer = make.module(layers, name, "OPTDecoderLayer");
  const int attention = make.module(layer, "self_attn", "OPTAttention");
  const int k = make.linear(attention, "k_proj", width, width, bias);
  const int v = make.linear(attention, "v_proj", width, width, bias);
  const int q = make.linear(attention, "q_proj", width, width, bias);
  make.forward(attention, {q, k, v, make.linear(attention, "out_proj", width, width, bias)});
  const int act = make.module(layer, "activation_fn", "ReLU");
  const int attention_norm = opt_norm(make, layer, "self_attn_layer_norm", sizes);
  const int fc1 = make.linear(layer, "fc1", width, inner, bias);
  const int fc2 = make.linear(layer, "fc2", inner, width, bias);
  const int final_norm = opt_norm(make, layer, "final_layer_norm", sizes);
  if (flag_of(sizes, "do_layer_norm_before")) {
    make.forward(layer, {attention_norm, attention, final_norm, fc1, act, fc2});
  } else {
    make.forward(layer, {attention, attention_norm, fc1, act, fc2, final_norm});
  }
}

void add_bloom_block(PresetMaker& make, int blocks, const std::string& name, int64_t width) {
  const int block = make.module(blocks, name, "BloomBlock");
  const int input_norm = make.layer_norm(block, "input_layernorm", width);
  const int attention = make.module(block, "self_attention", "BloomAttention");
  const int qkv = make.linear(attention, "query_key_value", width, 3 * width, true);
  const int dense = make.linear(attention, "dense", width, width, true);
  make.forward(attention, {qkv, make.module(attention, "attention_dropout", "Dropout"), dense});
  const int post_norm = make.layer_norm(block, "post_attention_layernorm", width);
  const int mlp = make.module(block, "mlp", "BloomMLP");
  const int up = make.linear(mlp, "dense_h_to_4h", width, 4 * width, true);
  const int act = make.module(mlp, "gelu_impl", "BloomGelu");
  make.forward(mlp, {up, act, make.linear(mlp, "dense_4h_to_h", 4 * width, width, true)});
  make.forward(block, {input_norm, attention, post_norm, mlp});
}

}  // namespace

int build_opt(ScenarioModel& model, int parent, const std::string& name, const PresetSizes& sizes) {
  constexpr int64_t kPositionOffset = 2;  // of OPTLearnedPositionalEmbedding
  PresetMaker make(model);
  const int64_t width = size_of(sizes, "hidden_size");
  const int64_t projected = size_of(sizes, "word_embed_proj_dim");
  const int root = make.module(parent, name, "OPTForCausalLM");
  const int decoder = make.module(make.module(root, "model", "OPTModel"), "decoder", "OPTDecoder");
  const int tokens = make.embedding(decoder, "embed_tokens", size_of(sizes, "vocab_size"), projected);
  const int positions = make.module(decoder, "embed_positions", "OPTLearnedPositionalEmbedding");
  model.add_param(positions, "weight", {size_of(sizes, "max_position_embeddings") + kPositionOffset, width});
  const bool projects = projected != width;
  const int project_out = projects ? make.linear(decoder, "project_out", width, projected) : -1;
  const int project_in = projects ? make.linear(decoder, "project_in", projected, width) : -1;
  const bool norms = flag_of(sizes, "do_layer_norm_before") && !flag_of(sizes, "_remove_final_layer_norm");
  const int norm = norms ? opt_norm(make, decoder, "final_layer_norm", sizes) : -1;
  const int layers = make.list(decoder, "layers");
  for (int64_t i = 0; i < size_of(sizes, "num_hidden_layers"); ++i)
    add_opt_layer(make, layers, std::to_string(i), sizes);
  make.forward(decoder, {tokens, positions, project_in, layers, norm, project_out});
  const int head = make.head(root, sizes, tokens, projected);
  make.forward(root, {decoder, head});  // not model, which is passed by
  return root;
}

int build_bloom(ScenarioModel& model, int parent, const std::string& name, const PresetSizes& sizes) {
  PresetMaker make(model);
  const int64_t width = size_of(sizes, "hidden_size");
  const int root = make.module(parent, name, "BloomForCausalLM");
  const int body = make.module(root, "transformer", "BloomModel");
  const int tokens = make.embedding(body, "word_embeddings", size_of(sizes, "vocab_size"), width);
  const int token_norm = make.layer_norm(body, "word_embeddings_layernorm", width);
  const int blocks = make.list(body, "h");
  for (int64_t i = 0; i < size_of(sizes, "n_layer"); ++i)
    add_bloom_block(make, blocks, std::to_string(i), width);
  const int norm = make.layer_norm(body, "ln_f", width);
  make.forward(body, {tokens, token_norm, blocks, norm});
  make.head(root, sizes, tokens, width);
  return root;
}

}  // namespace zero3::sim
