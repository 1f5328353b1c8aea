#include "sim/scenario/model_presets.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sim/scenario/model_presets_parts.h"

namespace zero3::sim {
namespace {

// Sizes that follow from another one where the config says nothing.
int64_t derived(std::string_view name, const PresetSizes& sizes) {
  constexpr int64_t kGptHeads = 12;
  if (name == "n_inner") return 4 * size_of(sizes, "n_embd");
  if (name == "n_head") return size_of(sizes, "n_embd") % kGptHeads == 0 ? kGptHeads : 1;
  if (name == "num_key_value_heads") return size_of(sizes, "num_attention_heads");
  if (name == "num_decoder_layers") return size_of(sizes, "num_layers");
  if (name == "experts_per_step") return size_of(sizes, "num_experts_per_tok");
  if (name == "head_dim") {
    return size_of(sizes, "hidden_size") / std::max<int64_t>(1, size_of(sizes, "num_attention_heads"));
  }
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

int64_t experts_of(const PresetSizes& sizes) {
  for (const char* name : {"num_local_experts", "num_experts"}) {
    if (const auto found = sizes.find(name); found != sizes.end()) return found->second;
  }
  return 1;
}

PresetSizes complete(const Preset& preset, PresetSizes given) {
  for (const PresetSize& size : preset.sizes) {
    if (size.kind != PresetSize::Kind::kLayers && size.value >= 0)
      given.try_emplace(std::string(size.name), size.value);
  }
  for (const PresetSize& size : preset.sizes) {
    if (size.kind != PresetSize::Kind::kLayers && given.find(size.name) == given.end())
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
