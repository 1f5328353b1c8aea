// Reads the `model` of a scenario file.
#pragma once

#include "sim/scenario/model.h"
#include "sim/scenario/yaml_reader.h"

namespace zero3::sim {

// `plans`: the file's named plans, which a module's `forward` may name; null if it has none. Throws BadInput.
ScenarioModel read_model(const YamlFile& file, const YamlNode& node, const YamlNode* plans);

}  // namespace zero3::sim
