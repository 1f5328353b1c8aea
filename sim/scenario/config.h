// Reads `deepspeed_config`: the keys of ds_config.json, as DeepSpeed and Hugging Face document them.
#pragma once

#include <string>
#include <vector>

#include "coordinator/settings.h"
#include "sim/scenario/yaml_reader.h"

namespace zero3::sim {

struct ScenarioConfig {
  Settings settings;
  std::vector<std::string> notes;  // keys that real DeepSpeed acts on and this model does not, each with why
};

// `node`: null if the file has none, then DeepSpeed's defaults. `hidden_size`: of the model, for advice; 0: not known.
// Throws BadInput.
ScenarioConfig read_config(const YamlFile& file, const YamlNode* node, int64_t hidden_size);

}  // namespace zero3::sim
