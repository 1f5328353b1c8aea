// Reads a `model` that is a preset: its sizes, LoRA around it, gradient checkpointing.
#pragma once

#include "sim/scenario/model.h"
#include "sim/scenario/model_presets.h"
#include "sim/scenario/yaml_reader.h"

namespace zero3::sim {

// Reads all keys but those that every model has (freeze, leaf_modules, other_roots). Throws BadInput.
ScenarioModel read_preset(const YamlFile& file, const YamlNode& node);

// Reads the value of one size into `sizes`. Throws BadInput.
void read_preset_size(const YamlFile& file, const YamlNode& value, const PresetSize& size,
                      PresetSizes& sizes);

// Completes the sizes and checks them together; what is wrong is thrown at `place`.
PresetSizes checked_sizes(const YamlFile& file, Place place, const Preset& preset, const PresetSizes& given);

}  // namespace zero3::sim
