// The keys of one JSON object, each asked for by its kind; whoever reads a file of JSON lines makes one per line.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "sim/run_file/json_line.h"

namespace zero3::sim {

// A line of a file, for errors.
class JsonPlace {
 public:
  JsonPlace(const std::string& source, std::string_view line, int number)
      : source_(source), line_(line), number_(number) {}

  [[noreturn]] void fail(int column, const std::string& message, const std::string& advice = "") const;
  int number() const { return number_; }

 private:
  const std::string& source_;
  std::string_view line_;
  int number_;
};

// Every member throws BadInput at the value. `what` names the object in errors: "a plan".
class JsonFields {
 public:
  // Refuses what is no object, and keys that are not among `known`.
  JsonFields(const JsonPlace& place, const JsonNode& node, std::string what,
             std::span<const std::string_view> known);

  const JsonNode* find(std::string_view key) const { return node_.find(key); }
  const JsonNode& needed(std::string_view key) const;
  const std::string& text(std::string_view key) const;
  std::string text_or(std::string_view key, const std::string& otherwise) const;
  bool boolean_or(std::string_view key, bool otherwise) const;
  // A list; an empty one if there is no such key.
  std::span<const JsonNode> list_or_empty(std::string_view key) const;
  std::span<const JsonNode> list(std::string_view key) const;
  int64_t whole(std::string_view key, int64_t least, int64_t most) const;
  int64_t whole_or(std::string_view key, int64_t least, int64_t most, int64_t otherwise) const;

 private:
  std::string called(std::string_view key) const;

  const JsonPlace& place_;
  const JsonNode& node_;
  std::string what_;
};

// A whole number in those limits.
int64_t whole_number(const JsonPlace& place, const JsonNode& node, const std::string& what, int64_t least,
                     int64_t most = std::numeric_limits<int64_t>::max());
std::span<const JsonNode> list_items(const JsonPlace& place, const JsonNode& node, const std::string& what);

}  // namespace zero3::sim
