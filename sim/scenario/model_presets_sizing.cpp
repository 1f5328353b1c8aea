// A preset of about so many parameters: the family's own proportions, deeper and wider together.
#include <algorithm>
#include <limits>
#include <string>

#include "sim/scenario/model_presets.h"

namespace zero3::sim {
namespace {

constexpr int64_t kMaxLayers = 256;
constexpr int64_t kWidthStep = 64;

int64_t default_of(const Preset& preset, std::string_view name) {
  return std::ranges::find(preset.sizes, name, &PresetSize::name)->value;
}

// The family at a depth. Widths are multiples of 64; heads keep their width.
PresetSizes at_depth(const Preset& preset, PresetSizes given, int64_t layers) {
  given.try_emplace(std::string(preset.layers), layers);
  const int64_t default_width = default_of(preset, preset.hidden_size);
  const int64_t wished = layers * default_width / default_of(preset, preset.layers);
  const int64_t width = given
                            .try_emplace(std::string(preset.hidden_size),
                                         std::max(kWidthStep, wished / kWidthStep * kWidthStep))
                            .first->second;
  if (!preset.inner.empty()) {
    const int64_t inner = width * default_of(preset, preset.inner) / default_width;
    given.try_emplace(std::string(preset.inner), std::max(kWidthStep, inner / kWidthStep * kWidthStep));
  }
  if (preset.heads.empty()) return given;
  const int64_t head_width = default_width / default_of(preset, preset.heads);
  const int64_t heads = width % head_width == 0 ? width / head_width : 1;
  given.try_emplace(std::string(preset.heads), heads);
  const auto key_value = std::ranges::find(preset.sizes, "num_key_value_heads", &PresetSize::name);
  if (key_value != preset.sizes.end() && key_value->value > 0) {
    given.try_emplace("num_key_value_heads", std::min(key_value->value, heads));
  }
  return given;
}

}  // namespace

PresetSizes sized_by_parameters(const Preset& preset, const PresetSizes& given, int64_t parameters) {
  PresetSizes best;
  int64_t best_distance = std::numeric_limits<int64_t>::max();
  for (int64_t layers = 1; layers <= kMaxLayers; ++layers) {
    const PresetSizes sizes = complete(preset, at_depth(preset, given, layers));
    if (!preset.check(sizes).empty()) continue;
    const int64_t total =
        make_preset(preset, sizes).total_numel().value_or(std::numeric_limits<int64_t>::max());
    const int64_t distance = total > parameters ? total - parameters : parameters - total;
    if (distance < best_distance) {
      best_distance = distance;
      best = sizes;
    }
    if (total >= parameters) break;
  }
  return best;
}

}  // namespace zero3::sim
