#include "sim/scenario/model_presets.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "sim/scenario/model_presets_parts.h"

namespace zero3::sim {
namespace {

constexpr std::array kMlpSizes = {
    PresetSize{"hidden_size", 1024},
    PresetSize{"num_layers", 4},
    PresetSize{"input_size", -1},
    PresetSize{"output_size", -1},
};
constexpr std::array kGptSizes = {
    PresetSize{"n_embd", 768},       PresetSize{"n_layer", 12},
    PresetSize{"n_inner", -1},       PresetSize{"vocab_size", 50257},
    PresetSize{"n_positions", 1024}, PresetSize{"tie_word_embeddings", 1, true},
};
constexpr std::array kLlamaSizes = {
    PresetSize{"hidden_size", 4096},
    PresetSize{"intermediate_size", 11008},
    PresetSize{"num_hidden_layers", 32},
    PresetSize{"num_attention_heads", 32},
    PresetSize{"num_key_value_heads", -1},
    PresetSize{"vocab_size", 32000},
    PresetSize{"tie_word_embeddings", 0, true},
};
constexpr std::array kMixtralSizes = {
    PresetSize{"hidden_size", 4096},
    PresetSize{"intermediate_size", 14336},
    PresetSize{"num_hidden_layers", 32},
    PresetSize{"num_attention_heads", 32},
    PresetSize{"num_key_value_heads", 8},
    PresetSize{"vocab_size", 32000},
    PresetSize{"num_local_experts", 8},
    PresetSize{"experts_per_step", -1},
    PresetSize{"num_experts_per_tok", 2},
    PresetSize{"experts_per_rank", 0, true},
    PresetSize{"tie_word_embeddings", 0, true},
};
constexpr std::array kT5Sizes = {
    PresetSize{"d_model", 512},
    PresetSize{"d_kv", 64},
    PresetSize{"d_ff", 2048},
    PresetSize{"num_layers", 6},
    PresetSize{"num_heads", 8},
    PresetSize{"num_decoder_layers", -1},
    PresetSize{"vocab_size", 32128},
    PresetSize{"relative_attention_num_buckets", 32},
    PresetSize{"tie_word_embeddings", 1, true},
};

std::string nothing_to_check(const PresetSizes& /*sizes*/) { return ""; }

std::string check_heads(const PresetSizes& sizes) {
  const int64_t heads = size_of(sizes, "num_attention_heads");
  const int64_t width = size_of(sizes, "hidden_size");
  if (heads == 0 || width % heads != 0) {
    return fmt::format("hidden_size {} is not a multiple of num_attention_heads {}", width, heads);
  }
  return "";
}

std::string check_experts(const PresetSizes& sizes) {
  const int64_t drawn = size_of(sizes, "experts_per_step");
  const int64_t experts = size_of(sizes, "num_local_experts");
  if (drawn < 1 || drawn > experts)
    return fmt::format("experts_per_step {} of num_local_experts {}", drawn, experts);
  return check_heads(sizes);
}

const std::vector<Preset>& presets() {
  static const std::vector<Preset> kPresets = {
      {"mlp", "hidden_size", "num_layers", "", "", kMlpSizes, build_mlp, nothing_to_check, {}},
      {"gpt", "n_embd", "n_layer", "", "", kGptSizes, build_gpt, nothing_to_check, {"c_attn"}},
      {"llama",
       "hidden_size",
       "num_hidden_layers",
       "num_attention_heads",
       "intermediate_size",
       kLlamaSizes,
       build_llama,
       check_heads,
       {"q_proj", "v_proj"}},
      {"t5", "d_model", "num_layers", "num_heads", "d_ff", kT5Sizes, build_t5, nothing_to_check, {"q", "v"}},
      {"mixtral",
       "hidden_size",
       "num_hidden_layers",
       "num_attention_heads",
       "intermediate_size",
       kMixtralSizes,
       build_mixtral,
       check_experts,
       {"q_proj", "v_proj"}},
  };
  return kPresets;
}

// Sizes that follow from another one where the config says nothing.
int64_t derived(std::string_view name, const PresetSizes& sizes) {
  if (name == "n_inner") return 4 * size_of(sizes, "n_embd");
  if (name == "num_key_value_heads") return size_of(sizes, "num_attention_heads");
  if (name == "num_decoder_layers") return size_of(sizes, "num_layers");
  if (name == "experts_per_step") return size_of(sizes, "num_experts_per_tok");
  return size_of(sizes, "hidden_size");
}

void freeze_all(ScenarioModel& model) {
  for (ModuleSpec& module : model.spec.modules) {
    for (ParamSpec& param : module.params) param.requires_grad = false;
  }
}

// The module becomes PEFT's wrapper, its parameters move to a child base_layer.
void wrap_module(ScenarioModel& model, int module, int64_t rank) {
  PresetMaker make(model);
  const std::string type = model.module(module).type;
  const std::vector<int64_t> shape = model.module(module).params.front().shape;
  const bool transposed = type == "Conv1D";
  const int64_t in = transposed ? shape[0] : shape[1];
  const int64_t out = transposed ? shape[1] : shape[0];
  model.module(module).type = "lora.Linear";
  std::vector<ParamSpec> params = std::move(model.module(module).params);
  model.module(module).params.clear();
  const int base = make.module(module, "base_layer", type);
  model.module(base).params = std::move(params);
  const int dropout = make.module(make.module(module, "lora_dropout", "ModuleDict"), "default", "Identity");
  const int down = make.linear(make.module(module, "lora_A", "ModuleDict"), "default", in, rank);
  const int up = make.linear(make.module(module, "lora_B", "ModuleDict"), "default", rank, out);
  for (const char* unused : {"lora_embedding_A", "lora_embedding_B"})
    make.module(module, unused, "ParameterDict");
  make.module(module, "lora_magnitude_vector", "ModuleDict");
  make.forward(module, {base, dropout, down, up});
  for (ModuleSpec& other : model.spec.modules) {
    for (ParamSpec& param : other.params) {
      if (param.tied_module == module) param.tied_module = base;
    }
  }
}

}  // namespace

std::span<const Preset> model_presets() { return presets(); }

const Preset* find_preset(std::string_view name) {
  const auto found = std::ranges::find(presets(), name, &Preset::name);
  return found == presets().end() ? nullptr : &*found;
}

PresetSizes complete(const Preset& preset, PresetSizes given) {
  for (const PresetSize& size : preset.sizes) {
    if (size.value >= 0) given.try_emplace(std::string(size.name), size.value);
  }
  for (const PresetSize& size : preset.sizes) {
    if (given.find(size.name) == given.end())
      given.emplace(std::string(size.name), derived(size.name, given));
  }
  return given;
}

ScenarioModel make_preset(const Preset& preset, const PresetSizes& sizes) {
  ScenarioModel model;
  preset.build(model, -1, "root", sizes);
  model.hidden_size = size_of(sizes, preset.hidden_size);
  return model;
}

int wrap_in_lora(ScenarioModel& model, int top, int64_t rank, std::span<const std::string> targets) {
  freeze_all(model);
  std::vector<int> found;
  std::vector<int> pending = {top};
  while (!pending.empty()) {
    const int parent = pending.back();
    pending.pop_back();
    const std::vector<int>& children = model.module(parent).children;
    for (size_t i = 0; i < children.size(); ++i) {
      const std::string& name = model.extra_of(parent).child_names[i];
      const bool layer =
          !model.module(children[i]).params.empty() && model.module(children[i]).params[0].shape.size() == 2;
      if (layer && std::ranges::find(targets, name) != targets.end()) found.push_back(children[i]);
      pending.push_back(children[i]);
    }
  }
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  for (const int module : found) wrap_module(model, module, rank);
  return static_cast<int>(found.size());
}

}  // namespace zero3::sim
