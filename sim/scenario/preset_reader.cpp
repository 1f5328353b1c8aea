#include "sim/scenario/preset_reader.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace zero3::sim {
namespace {

constexpr int64_t kMaxPresetSize = int64_t{1} << 31;
constexpr int64_t kMaxModules = 200'000;
constexpr std::string_view kLora = "lora";
constexpr auto kCommonKeys = std::to_array<std::string_view>(
    {"preset", "parameters", "gradient_checkpointing", "freeze", "leaf_modules", "other_roots"});
constexpr auto kLoraKeys = std::to_array<std::string_view>({"base", "r", "target_modules"});

std::vector<std::string_view> preset_names() {
  std::vector<std::string_view> names;
  for (const Preset& preset : model_presets()) names.push_back(preset.name);
  return names;
}

class PresetReader {
 public:
  PresetReader(const YamlFile& file, const YamlNode& node) : file_(file), node_(node) {}

  ScenarioModel read() {
    const YamlNode& name = *node_.find("preset");
    const bool lora = file_.text(name, "preset") == kLora;
    const Preset& preset = lora ? base_preset() : named(name, true);
    check_keys(preset, lora);
    const PresetSizes sizes = read_sizes(preset);
    ScenarioModel model = lora ? read_lora(preset, sizes) : make_preset(preset, sizes);
    read_checkpointing(model);
    return model;
  }

 private:
  const Preset& named(const YamlNode& node, bool with_lora) const {
    const Preset* preset = find_preset(file_.text(node, "preset"));
    if (preset != nullptr) return *preset;
    std::vector<std::string_view> names = preset_names();
    if (with_lora) names.push_back(kLora);
    file_.fail(node.place, fmt::format("unknown preset '{}'", node.scalar), suggestion(node.scalar, names));
  }

  const Preset& base_preset() const {
    const YamlNode* base = node_.find("base");
    if (base == nullptr)
      file_.fail(node_.find("preset")->place, "lora needs a base", "for example base: llama");
    return named(*base, false);
  }

  void check_keys(const Preset& preset, bool lora) const {
    std::vector<std::string_view> known(kCommonKeys.begin(), kCommonKeys.end());
    if (lora) known.insert(known.end(), kLoraKeys.begin(), kLoraKeys.end());
    for (const PresetSize& size : preset.sizes) known.push_back(size.name);
    file_.check_keys(node_, known, fmt::format("a {} model", preset.name));
  }

  PresetSizes read_sizes(const Preset& preset) const {
    PresetSizes given;
    for (const PresetSize& size : preset.sizes) {
      const YamlNode* value = node_.find(size.name);
      if (value != nullptr) read_preset_size(file_, *value, size, given);
    }
    const YamlNode* parameters = node_.find("parameters");
    PresetSizes sizes = given;
    if (parameters != nullptr) {
      sizes = sized_by_parameters(preset, given, file_.count(*parameters, "parameters"));
      if (sizes.empty()) file_.fail(parameters->place, "no model of this family has these sizes");
    }
    return checked_sizes(file_, node_.place, preset, sizes);
  }

  ScenarioModel read_lora(const Preset& preset, const PresetSizes& sizes) const {
    ScenarioModel model;
    model.add_root("root", "PeftModelForCausalLM");
    const int lora = model.add_module(0, "base_model", "LoraModel");
    const int base = preset.build(model, lora, "model", sizes);
    model.hidden_size = sizes.find(preset.hidden_size)->second;
    const YamlNode* r = node_.find("r");
    const int64_t rank = r == nullptr ? 8 : file_.count(*r, "r", kMaxPresetSize);
    std::vector<std::string> targets(preset.lora_targets.begin(), preset.lora_targets.end());
    const YamlNode* names = node_.find("target_modules");
    if (names != nullptr) {
      targets.clear();
      for (const YamlNode& name :
           file_.list(*names, "target_modules", "for example [q_proj, v_proj]").items) {
        targets.push_back(file_.text(name, "a module's name"));
      }
    }
    if (wrap_in_lora(model, base, rank, targets) == 0) {
      file_.fail(names == nullptr ? node_.place : names->place, "target_modules matches no linear layer",
                 "the last part of a module's name, such as q_proj");
    }
    return model;
  }

  // Wraps each of the repeated layers, as gradient_checkpointing_enable() does.
  void read_checkpointing(ScenarioModel& model) const {
    const YamlNode* node = node_.find("gradient_checkpointing");
    if (node == nullptr || node->scalar == "false") return;
    static const std::vector<std::pair<std::string, Checkpointing>> kForms = {
        {"true", Checkpointing::kNonReentrant},
        {"non_reentrant", Checkpointing::kNonReentrant},
        {"reentrant", Checkpointing::kReentrant},
        {"whole_recompute", Checkpointing::kWholeRecompute},
    };
    const auto form = std::ranges::find(kForms, node->scalar, &std::pair<std::string, Checkpointing>::first);
    if (form == kForms.end()) {
      file_.fail(node->place,
                 "gradient_checkpointing must be true, reentrant, non_reentrant or whole_recompute");
    }
    for (ScenarioModel::Extra& extra : model.extra) {
      for (PlanItem& item : extra.forward) {
        const std::string type = item.module < 0 ? "" : model.module(item.module).type;
        const bool layer = type.ends_with("DecoderLayer") || type == "GPT2Block" || type == "T5Block" ||
                           type == "BloomBlock";
        if (layer) item.checkpointing = form->second;
      }
    }
  }

  const YamlFile& file_;
  const YamlNode& node_;
};

}  // namespace

void read_preset_size(const YamlFile& file, const YamlNode& value, const PresetSize& size,
                      PresetSizes& sizes) {
  const std::string name(size.name);
  switch (size.kind) {
    case PresetSize::Kind::kFlag:
      sizes.emplace(name, static_cast<int64_t>(file.boolean(value, name)));
      return;
    case PresetSize::Kind::kLayers:
      for (const YamlNode& layer : file.list(value, name, "for example [0, 1]").items)
        sizes.emplace(fmt::format("{}.{}", name, file.count(layer, "a layer", kMaxPresetSize)), 1);
      return;
    case PresetSize::Kind::kWord: {
      const auto word = std::ranges::find(size.words, file.text(value, name));
      if (word == size.words.end())
        file.fail(value.place, fmt::format("{} must be {}", name, fmt::join(size.words, " or ")));
      sizes.emplace(name, word - size.words.begin());
      return;
    }
    case PresetSize::Kind::kCount: break;
  }
  const int64_t number = file.count(value, name, kMaxPresetSize);
  if (number == 0) file.fail(value.place, name + " is 0", "at least 1");
  if (name == "transformers" && number != 4 && number != 5)
    file.fail(value.place, "transformers must be 4 or 5", "the major version of the library");
  sizes.emplace(name, number);
}

PresetSizes checked_sizes(const YamlFile& file, Place place, const Preset& preset, const PresetSizes& given) {
  PresetSizes sizes = complete(preset, given);
  if (const std::string wrong = preset.check(sizes); !wrong.empty()) file.fail(place, wrong);
  if (sizes.find(preset.layers)->second > kMaxModules / experts_of(sizes))
    file.fail(place, "the model has too many layers", fmt::format("at most {} modules", kMaxModules));
  return sizes;
}

ScenarioModel read_preset(const YamlFile& file, const YamlNode& node) {
  return PresetReader(file, node).read();
}

}  // namespace zero3::sim
