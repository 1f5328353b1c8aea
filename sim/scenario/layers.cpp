// Layers written as torch prints them, "Linear(1024, 1024, bias=False)": their parameters' names and shapes.
//
// Sizes and those options that decide which parameters exist; another option (padding=1) is passed over.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/scenario/model.h"
#include "sim/scenario/number.h"
#include "sim/scenario/yaml_reader.h"

namespace zero3::sim {
namespace {

struct Arguments {
  std::vector<int64_t> sizes;  // positional, and those named in_features= and the like, in this order
  std::map<std::string, std::string> named;

  bool flag(const std::string& name, bool otherwise) const {
    const auto found = named.find(name);
    return found == named.end() ? otherwise : found->second != "False" && found->second != "false";
  }
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::optional<int64_t> layer_size(std::string_view text) {
  const Number number = parse_number(text);
  if (number.kind != Number::Kind::kWhole || number.value > (int64_t{1} << 62)) return std::nullopt;
  return number.value;
}

// Takes one argument off the front: up to the comma that is in no brackets.
std::string_view take_argument(std::string_view& text) {
  int depth = 0;
  size_t end = 0;
  for (; end < text.size() && (depth > 0 || text[end] != ','); ++end) {
    if (text[end] == '(') ++depth;
    if (text[end] == ')') --depth;
  }
  const std::string_view argument = trimmed(text.substr(0, end));
  text.remove_prefix(std::min(end + 1, text.size()));
  return argument;
}

// A tuple such as (3, 3) or (1024,) counts as its first number.
std::string_view first_of(std::string_view value) {
  if (value.starts_with('(')) value.remove_prefix(1);
  return trimmed(value.substr(0, value.find_first_of(",)")));
}

// "1024, 1024, bias=False". Hands back what is wrong.
std::string read_arguments(std::string_view text, Arguments& arguments) {
  static constexpr std::array<std::string_view, 6> kSizes = {
      "in_features", "out_features", "num_embeddings", "embedding_dim", "normalized_shape", "kernel_size"};
  while (!trimmed(text).empty()) {
    const std::string_view argument = take_argument(text);
    const size_t equals = argument.find('=');
    const std::string_view name = equals == std::string_view::npos ? "" : trimmed(argument.substr(0, equals));
    const std::string_view value =
        first_of(equals == std::string_view::npos ? argument : trimmed(argument.substr(equals + 1)));
    const bool is_size = name.empty() || std::ranges::find(kSizes, name) != kSizes.end();
    const std::optional<int64_t> size = is_size ? layer_size(value) : std::nullopt;
    if (is_size && !size) return fmt::format("'{}' is not a size", value);
    if (is_size) {
      arguments.sizes.push_back(*size);
    } else {
      arguments.named.insert_or_assign(std::string(name), std::string(value));
    }
  }
  return "";
}

struct Layer {
  std::string_view type;
  std::string_view form;  // shown when the sizes are not right
  size_t sizes;
  void (*add_params)(ScenarioModel&, int, const Arguments&);
};

void add_linear(ScenarioModel& model, int module, const Arguments& arguments) {
  const std::vector<int64_t>& sizes = arguments.sizes;
  model.add_param(module, "weight", {sizes[1], sizes[0]});
  if (arguments.flag("bias", true)) model.add_param(module, "bias", {sizes[1]});
}

void add_conv1d(ScenarioModel& model, int module,
                const Arguments& arguments) {  // transformers' Conv1D(nf, nx)
  model.add_param(module, "weight", {arguments.sizes[1], arguments.sizes[0]});
  model.add_param(module, "bias", {arguments.sizes[0]});
}

void add_embedding(ScenarioModel& model, int module, const Arguments& arguments) {
  model.add_param(module, "weight", {arguments.sizes[0], arguments.sizes[1]});
}

void add_conv2d(ScenarioModel& model, int module, const Arguments& arguments) {
  const std::vector<int64_t>& sizes = arguments.sizes;
  model.add_param(module, "weight", {sizes[1], sizes[0], sizes[2], sizes[2]});
  if (arguments.flag("bias", true)) model.add_param(module, "bias", {sizes[1]});
}

void add_layer_norm(ScenarioModel& model, int module, const Arguments& arguments) {
  if (!arguments.flag("elementwise_affine", true)) return;
  model.add_param(module, "weight", {arguments.sizes[0]});
  if (arguments.flag("bias", true)) model.add_param(module, "bias", {arguments.sizes[0]});
}

void add_rms_norm(ScenarioModel& model, int module, const Arguments& arguments) {
  model.add_param(module, "weight", {arguments.sizes[0]});
}

constexpr std::array kLayers = {
    Layer{"Linear", "Linear(in_features, out_features, bias=True)", 2, add_linear},
    Layer{"Embedding", "Embedding(num_embeddings, embedding_dim)", 2, add_embedding},
    Layer{"LayerNorm", "LayerNorm(size)", 1, add_layer_norm},
    Layer{"RMSNorm", "RMSNorm(size)", 1, add_rms_norm},
    Layer{"LlamaRMSNorm", "LlamaRMSNorm(size)", 1, add_rms_norm},
    Layer{"T5LayerNorm", "T5LayerNorm(size)", 1, add_rms_norm},
    Layer{"BatchNorm2d", "BatchNorm2d(channels)", 1, add_layer_norm},
    Layer{"Conv1D", "Conv1D(out_features, in_features)", 2, add_conv1d},
    Layer{"Conv2d", "Conv2d(in_channels, out_channels, kernel_size)", 3, add_conv2d},
};

bool is_identifier(std::string_view text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto is_part = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '.'; };
  return !text.empty() && is_letter(text.front()) && std::ranges::all_of(text, is_part);
}

std::string known_layers() {
  std::string names;
  for (const Layer& layer : kLayers) names += (names.empty() ? "" : ", ") + std::string(layer.type);
  return names;
}

}  // namespace

std::string apply_layer(ScenarioModel& model, int module, std::string_view text) {
  const size_t bracket = std::min(text.find('('), text.size());
  const std::string type(trimmed(text.substr(0, bracket)));
  if (!is_identifier(type)) return fmt::format("'{}' is not a class name", type);
  model.module(module).type = type;
  model.extra_of(module).container = is_container_type(type);
  const auto layer = std::ranges::find(kLayers, type, &Layer::type);
  std::string_view inside = text.substr(bracket);
  if (!inside.empty() && !inside.ends_with(')')) return "'(' without its ')'";
  if (!inside.empty()) inside = inside.substr(1, inside.size() - 2);
  // Dropout(p=0.1) and the like have no parameters; those of a class that takes sizes are not guessed.
  if (layer == kLayers.end() && inside.find('=') == std::string_view::npos && !trimmed(inside).empty()) {
    return fmt::format("the parameters of {}({}) are not known (known: {})", type, inside, known_layers());
  }
  if (layer == kLayers.end()) return "";
  Arguments arguments;
  if (std::string wrong = read_arguments(inside, arguments); !wrong.empty()) return wrong;
  if (arguments.sizes.size() != layer->sizes)
    return fmt::format("{} takes {} size(s): {}", type, layer->sizes, layer->form);
  layer->add_params(model, module, arguments);
  return "";
}

}  // namespace zero3::sim
