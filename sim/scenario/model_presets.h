// Models that people train, module by module as their libraries build them (Hugging Face transformers and PEFT), with
// the sizes of their config.json: names, shapes, registration order, ties, and the order in which forward calls.
//
// `transformers` chooses between the classes of its major versions 4 (as 4.57) and 5 where they differ.
// Limits: parameters and modules alone. No buffers, no attention variants beyond the default, no encoder of images.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/scenario/model.h"

namespace zero3::sim {

struct PresetSize {
  enum class Kind {
    kCount,   // 1 or more
    kFlag,    // true or false, 1 or 0 here
    kLayers,  // a list of layers, each an entry of its own: "mlp_only_layers.3"
    kWord,    // one of `words`, its number here
  };
  std::string_view name;  // as in the family's config.json
  int64_t value;          // where the file says nothing; -1: follows from another size
  Kind kind = Kind::kCount;
  std::vector<std::string_view> words = {};
};

using PresetSizes = std::map<std::string, int64_t, std::less<>>;

struct Preset {
  std::string_view name;
  std::string_view hidden_size;  // which of the sizes is the width of the model
  std::string_view layers;       // and which its depth
  std::string_view heads;        // "": it has none
  std::string_view inner;        // the width of the feed-forward layers; "" where it follows from hidden_size
  std::vector<PresetSize> sizes;
  // Builds below `parent` under `name`, or as the root where parent is -1. Every size is given. Hands back its index.
  int (*build)(ScenarioModel& model, int parent, const std::string& name, const PresetSizes& sizes);
  // What is wrong with the sizes together; "" if nothing.
  std::string (*check)(const PresetSizes& sizes);
  std::vector<std::string_view> lora_targets;  // PEFT's default target_modules
  std::string_view model_type;                 // of config.json; "": no model of transformers
  std::string_view architecture;               // its class
};

std::span<const Preset> model_presets();
const Preset* find_preset(std::string_view name);

// How often an expert layer has one for each of its experts; 1 where the family has none.
int64_t experts_of(const PresetSizes& sizes);

// The sizes with their defaults filled in.
PresetSizes complete(const Preset& preset, PresetSizes given);

ScenarioModel make_preset(const Preset& preset, const PresetSizes& sizes);

// PEFT's LoRA on a base model: everything frozen but adapters of that rank around each module whose name is in
// `targets`. Hands back how many modules were wrapped.
int wrap_in_lora(ScenarioModel& model, int top, int64_t rank, std::span<const std::string> targets);

// Layers, width, heads and inner width, as far as not given, in the proportions of the family's defaults, so that the
// total comes nearest to `parameters`.
PresetSizes sized_by_parameters(const Preset& preset, const PresetSizes& given, int64_t parameters);

}  // namespace zero3::sim
