// A config.json of Hugging Face transformers as a model, where its family is one of the presets.
#pragma once

#include <string>

#include "sim/scenario/model.h"

namespace zero3::sim {

struct ConfiguredModel {
  ScenarioModel model;
  std::string architecture;  // "Qwen3ForCausalLM"
  int transformers = 4;      // whose classes: its major version
};

// Whether the text is a config.json rather than a scenario: an object without the key zero3sim.
bool looks_like_model_config(const std::string& text);

// `transformers`: 4 or 5; 0: what the file's transformers_version begins with, else 4. Sizes that the file does not
// give are the config class's. Throws BadInput at the place of what is wrong; `path` is shown in errors only.
ConfiguredModel read_model_config(const std::string& path, const std::string& text, int transformers);

}  // namespace zero3::sim
