#include "sim/run_file/json_fields.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sim/bad_input.h"
#include "sim/scenario/yaml_reader.h"

namespace zero3::sim {

void JsonPlace::fail(int column, const std::string& message, const std::string& advice) const {
  // BadInput shows the line of a whole text: the lines before it do not matter.
  const std::string shown = std::string(static_cast<size_t>(number_ - 1), '\n') + std::string(line_);
  throw BadInput(source_, shown, Place{number_, column}, message, advice);
}

JsonFields::JsonFields(const JsonPlace& place, const JsonNode& node, std::string what,
                       std::span<const std::string_view> known)
    : place_(place), node_(node), what_(std::move(what)) {
  if (!node.is(JsonNode::Kind::kObject)) place.fail(node.column, what_ + " must be an object");
  for (size_t i = 0; i < node.keys.size(); ++i) {
    if (std::ranges::find(known, node.keys[i]) != known.end()) continue;
    place.fail(node.key_columns[i], fmt::format("{} has the unknown key \"{}\"", what_, node.keys[i]),
               suggestion(node.keys[i], known));
  }
}

const JsonNode& JsonFields::needed(std::string_view key) const {
  const JsonNode* value = node_.find(key);
  if (value == nullptr) place_.fail(node_.column, fmt::format("{} has no \"{}\"", what_, key));
  return *value;
}

std::string JsonFields::called(std::string_view key) const { return fmt::format("\"{}\" of {}", key, what_); }

const std::string& JsonFields::text(std::string_view key) const {
  const JsonNode& value = needed(key);
  if (!value.is(JsonNode::Kind::kText)) place_.fail(value.column, called(key) + " must be a text");
  return value.text;
}

std::string JsonFields::text_or(std::string_view key, const std::string& otherwise) const {
  return find(key) == nullptr ? otherwise : text(key);
}

bool JsonFields::boolean_or(std::string_view key, bool otherwise) const {
  const JsonNode* value = node_.find(key);
  if (value == nullptr) return otherwise;
  if (!value->is(JsonNode::Kind::kBoolean))
    place_.fail(value->column, called(key) + " must be true or false");
  return value->boolean;
}

std::span<const JsonNode> JsonFields::list(std::string_view key) const {
  return list_items(place_, needed(key), called(key));
}

std::span<const JsonNode> JsonFields::list_or_empty(std::string_view key) const {
  return find(key) == nullptr ? std::span<const JsonNode>() : list(key);
}

int64_t JsonFields::whole(std::string_view key, int64_t least, int64_t most) const {
  return whole_number(place_, needed(key), called(key), least, most);
}

int64_t JsonFields::whole_or(std::string_view key, int64_t least, int64_t most, int64_t otherwise) const {
  return find(key) == nullptr ? otherwise : whole(key, least, most);
}

int64_t whole_number(const JsonPlace& place, const JsonNode& node, const std::string& what, int64_t least,
                     int64_t most) {
  const bool whole = node.is(JsonNode::Kind::kWhole) && (!node.negative || node.magnitude == 0);
  const bool small = node.magnitude <= static_cast<uint64_t>(most);
  if (whole && small && node.magnitude >= static_cast<uint64_t>(least))
    return static_cast<int64_t>(node.magnitude);
  place.fail(node.column, fmt::format("{} must be a whole number from {} to {}", what, least, most));
}

std::span<const JsonNode> list_items(const JsonPlace& place, const JsonNode& node, const std::string& what) {
  if (!node.is(JsonNode::Kind::kList)) place.fail(node.column, what + " must be a list");
  return node.items;
}

}  // namespace zero3::sim
