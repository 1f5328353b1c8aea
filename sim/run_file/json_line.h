// One line of a JSON lines file as a tree that knows the column of every value, so that what is wrong in a file of
// megabytes is shown at its place. nlohmann-json parses.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace zero3::sim {

constexpr size_t kMaxJsonDepth = 1100;  // brackets: modules call each other 500 deep, with two brackets each

struct JsonNode {
  enum class Kind { kNull, kBoolean, kWhole, kFraction, kText, kList, kObject };

  Kind kind = Kind::kNull;
  int column = 1;  // 1-based, bytes
  bool boolean = false;
  bool negative = false;
  uint64_t magnitude = 0;              // of a whole number
  std::string text = {};               // of a text; of any other scalar as it was written
  std::vector<std::string> keys = {};  // of an object: keys[i] has the value items[i]
  std::vector<int> key_columns = {};
  std::vector<JsonNode> items = {};

  bool is(Kind wanted) const { return kind == wanted; }
  // The value of a key; null if there is none.
  const JsonNode* find(std::string_view key) const;
  std::vector<std::string_view> keys_view() const { return {keys.begin(), keys.end()}; }
};

class BadJson : public std::runtime_error {
 public:
  BadJson(int column, const std::string& message) : std::runtime_error(message), column_(column) {}
  int column() const { return column_; }

 private:
  int column_;
};

// Throws BadJson: what is no JSON, a key twice in one object, more than kMaxJsonDepth brackets.
JsonNode parse_json_line(std::string_view line);

}  // namespace zero3::sim
