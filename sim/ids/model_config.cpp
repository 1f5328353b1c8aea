#include "sim/ids/model_config.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "sim/bad_input.h"
#include "sim/scenario/preset_reader.h"

namespace zero3::sim {
namespace {

constexpr std::string_view kDescribe = "a scenario file can describe any model (docs/scenario-format.md)";

// attribute_map and the like of the config classes: other names of a size.
struct Alias {
  std::string_view preset;
  std::string_view alias;
  std::string_view name;
};
constexpr auto kAliases = std::to_array<Alias>({
    {"bloom", "n_embed", "hidden_size"},
    {"bloom", "num_hidden_layers", "n_layer"},
    {"bloom", "num_attention_heads", "n_head"},
    {"gpt", "hidden_size", "n_embd"},
    {"gpt", "num_hidden_layers", "n_layer"},
    {"gpt", "num_attention_heads", "n_head"},
    {"gpt", "max_position_embeddings", "n_positions"},
    {"t5", "hidden_size", "d_model"},
    {"t5", "num_hidden_layers", "num_layers"},
    {"t5", "num_attention_heads", "num_heads"},
});
// Of a scenario alone.
constexpr auto kNotOfConfigs =
    std::to_array<std::string_view>({"experts_per_step", "experts_per_rank", "transformers"});

// yaml-cpp reads more than JSON; what is no JSON is refused first.
void check_json(const std::string& path, const std::string& text) {
  try {
    [[maybe_unused]] const nlohmann::json parsed = nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    Place place{1, 1};
    for (size_t i = 0; i + 1 < error.byte && i < text.size(); ++i) {
      place.column = text[i] == '\n' ? 1 : place.column + 1;
      place.line += text[i] == '\n' ? 1 : 0;
    }
    throw BadInput(path, text, place, "this is not JSON", "a config.json of Hugging Face transformers");
  }
}

class ConfigReader {
 public:
  ConfigReader(const YamlFile& file, int transformers) : file_(file), transformers_(transformers) {}

  ConfiguredModel read() {
    const YamlNode& root = file_.map(file_.root(), "a config.json", "an object");
    const Preset& preset = family(root);
    const int version = transformers_version(root);
    refuse_cross_attention(root);
    PresetSizes given;
    given.emplace("transformers", version);
    for (const PresetSize& size : preset.sizes) read_size(root, preset, size, given);
    const PresetSizes sizes = checked_sizes(file_, root.place, preset, given);
    return {make_preset(preset, sizes), std::string(preset.architecture), version};
  }

 private:
  static std::vector<std::string_view> known(std::string_view Preset::*field) {
    std::vector<std::string_view> names;
    for (const Preset& preset : model_presets()) {
      if (!preset.model_type.empty()) names.push_back(preset.*field);
    }
    return names;
  }

  const Preset* find(std::string_view Preset::*field, const std::string& name) const {
    for (const Preset& preset : model_presets()) {
      if (!name.empty() && preset.*field == name) return &preset;
    }
    return nullptr;
  }

  const Preset& needed(std::string_view Preset::*field, const YamlNode& node, const char* key) const {
    const std::string& name = file_.text(node, key);
    if (const Preset* preset = find(field, name)) return *preset;
    file_.fail(node.place, fmt::format("{}: '{}' is not known", key, name),
               fmt::format("known are {}; {}", fmt::join(known(field), ", "), kDescribe));
  }

  const Preset& family(const YamlNode& root) const {
    const YamlNode* architectures = root.find("architectures");
    const YamlNode* type = root.find("model_type");
    if (architectures != nullptr && architectures->is_null()) architectures = nullptr;
    if (architectures == nullptr && type == nullptr) {
      file_.fail(
          root.place, "neither architectures nor model_type: which family is this?",
          fmt::format("model_type is one of {}; {}", fmt::join(known(&Preset::model_type), ", "), kDescribe));
    }
    if (architectures == nullptr) return needed(&Preset::model_type, *type, "model_type");
    const auto& names =
        file_.list(*architectures, "architectures", "for example [\"LlamaForCausalLM\"]").items;
    if (names.empty()) file_.fail(architectures->place, "architectures is empty", std::string(kDescribe));
    const Preset& preset = needed(&Preset::architecture, names.front(), "architectures");
    if (type != nullptr && &needed(&Preset::model_type, *type, "model_type") != &preset) {
      file_.fail(type->place,
                 fmt::format("model_type '{}' is not that of {}", type->scalar, preset.architecture),
                 fmt::format("its model_type is {}", preset.model_type));
    }
    return preset;
  }

  int transformers_version(const YamlNode& root) const {
    if (transformers_ != 0) return transformers_;
    const YamlNode* node = root.find("transformers_version");
    const std::string written = node != nullptr && node->is_scalar() ? node->scalar : "";
    return written.starts_with('5') ? 5 : 4;
  }

  void refuse_cross_attention(const YamlNode& root) const {
    const YamlNode* cross = root.find("add_cross_attention");
    if (cross != nullptr && !cross->is_null() && file_.boolean(*cross, "add_cross_attention"))
      file_.fail(cross->place, "layers with cross-attention are not modelled", std::string(kDescribe));
  }

  const YamlNode* value_of(const YamlNode& root, const Preset& preset, std::string_view name) const {
    const YamlNode* value = root.find(name);
    for (const Alias& alias : kAliases) {
      if (value != nullptr && !value->is_null()) break;
      if (alias.preset == preset.name && alias.name == name) value = root.find(alias.alias);
    }
    return value;
  }

  void read_size(const YamlNode& root, const Preset& preset, const PresetSize& size,
                 PresetSizes& given) const {
    if (std::ranges::find(kNotOfConfigs, size.name) != kNotOfConfigs.end()) return;
    const YamlNode* value = value_of(root, preset, size.name);
    if (value == nullptr) return;
    if (!value->is_null()) {
      read_preset_size(file_, *value, size, given);
    } else if (size.name == "num_key_value_heads") {
      const YamlNode* heads = root.find("num_attention_heads");
      if (heads != nullptr) given.emplace(size.name, file_.count(*heads, "num_attention_heads"));
    }
  }

  const YamlFile& file_;
  int transformers_;
};

}  // namespace

bool looks_like_model_config(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && text[first] == '{' && text.find("\"zero3sim\"") == std::string::npos;
}

ConfiguredModel read_model_config(const std::string& path, const std::string& text, int transformers) {
  check_json(path, text);
  const YamlFile file(path, text);
  return ConfigReader(file, transformers).read();
}

}  // namespace zero3::sim
