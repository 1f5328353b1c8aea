// Reads a `model` that is a preset: its sizes, LoRA around it, gradient checkpointing.
#pragma once

#include "sim/scenario/model.h"
#include "sim/scenario/yaml_reader.h"

namespace zero3::sim {

// Reads all keys but those that every model has (freeze, leaf_modules, other_roots). Throws BadInput.
ScenarioModel read_preset(const YamlFile& file, const YamlNode& node);

}  // namespace zero3::sim
