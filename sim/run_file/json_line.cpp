#include "sim/run_file/json_line.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace zero3::sim {
namespace {

// Reads the line and counts what the parser has taken of it.
class CountingIterator {
 public:
  // NOLINTBEGIN(readability-identifier-naming): the names that std::iterator_traits looks for
  using difference_type = std::ptrdiff_t;
  using value_type = char;
  using pointer = const char*;
  using reference = const char&;
  using iterator_category = std::input_iterator_tag;
  // NOLINTEND(readability-identifier-naming)

  CountingIterator(std::string_view text, size_t at, size_t* taken) : text_(text), at_(at), taken_(taken) {}
  reference operator*() const { return text_[at_]; }
  CountingIterator& operator++() {
    *taken_ = ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  std::string_view text_;
  size_t at_;
  size_t* taken_;
};

// nlohmann's events, each told as soon as its last character was taken (of a number: one character later).
class TreeBuilder {
 public:
  TreeBuilder(std::string_view line, const size_t& taken) : line_(line), taken_(taken) {}

  JsonNode take() { return std::move(root_); }

  bool null() { return add(scalar(JsonNode::Kind::kNull, false)); }
  bool boolean(bool value) {
    JsonNode node = scalar(JsonNode::Kind::kBoolean, false);
    node.boolean = value;
    return add(std::move(node));
  }
  bool number_integer(int64_t value) {
    JsonNode node = scalar(JsonNode::Kind::kWhole, true);
    node.negative = value < 0;
    node.magnitude = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
    return add(std::move(node));
  }
  bool number_unsigned(uint64_t value) {
    JsonNode node = scalar(JsonNode::Kind::kWhole, true);
    node.magnitude = value;
    return add(std::move(node));
  }
  bool number_float(double /*value*/, const std::string& /*written*/) {
    return add(scalar(JsonNode::Kind::kFraction, true));
  }
  bool string(std::string& value) {
    JsonNode node = scalar(JsonNode::Kind::kText, false);
    node.text = std::move(value);
    return add(std::move(node));
  }
  bool binary(nlohmann::json::binary_t& /*value*/) { return false; }  // JSON has none
  bool start_object(size_t /*size*/) { return open(JsonNode::Kind::kObject); }
  bool start_array(size_t /*size*/) { return open(JsonNode::Kind::kList); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    const int column = next_column();
    end_token(false);
    JsonNode& object = open_.back();
    if (std::ranges::find(object.keys, name) != object.keys.end())
      throw BadJson(column, fmt::format("the key \"{}\" a second time", name));
    object.keys.push_back(std::move(name));
    object.key_columns.push_back(column);
    return true;
  }
  [[noreturn]] bool parse_error(size_t position, const std::string& /*token*/,
                                const nlohmann::json::exception& /*error*/) {
    throw BadJson(static_cast<int>(std::clamp<size_t>(position, 1, line_.size() + 1)), "not JSON here");
  }

 private:
  // Where the token that was just read starts.
  int next_column() const {
    const size_t start = line_.find_first_not_of(" \t\r,:", last_end_);
    return static_cast<int>(std::min(start, line_.size())) + 1;
  }
  void end_token(bool number) {
    last_end_ = taken_;
    const bool one_more =
        number && last_end_ > 0 && (line_[last_end_ - 1] < '0' || line_[last_end_ - 1] > '9');
    if (one_more) --last_end_;
  }

  JsonNode scalar(JsonNode::Kind kind, bool number) {
    JsonNode node{.kind = kind, .column = next_column()};
    end_token(number);
    const auto start = static_cast<size_t>(node.column - 1);
    if (kind != JsonNode::Kind::kText) node.text = line_.substr(start, last_end_ - start);
    return node;
  }

  bool open(JsonNode::Kind kind) {
    JsonNode node{.kind = kind, .column = next_column()};
    end_token(false);
    if (open_.size() >= kMaxJsonDepth)
      throw BadJson(node.column, fmt::format("more than {} nested brackets", kMaxJsonDepth));
    open_.push_back(std::move(node));
    return true;
  }

  bool close() {
    end_token(false);
    JsonNode node = std::move(open_.back());
    open_.pop_back();
    return add(std::move(node));
  }

  bool add(JsonNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
    } else {
      open_.back().items.push_back(std::move(node));
    }
    return true;
  }

  std::string_view line_;
  const size_t& taken_;
  size_t last_end_ = 0;
  std::vector<JsonNode> open_;
  JsonNode root_;
};

}  // namespace

const JsonNode* JsonNode::find(std::string_view key) const {
  const auto found = std::ranges::find(keys, key);
  return found == keys.end() ? nullptr : &items[static_cast<size_t>(found - keys.begin())];
}

JsonNode parse_json_line(std::string_view line) {
  size_t taken = 0;
  TreeBuilder builder(line, taken);
  nlohmann::json::sax_parse(CountingIterator(line, 0, &taken), CountingIterator(line, line.size(), &taken),
                            &builder);
  return builder.take();
}

}  // namespace zero3::sim
