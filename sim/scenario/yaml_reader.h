// A YAML file as a tree that knows where everything was written, and the errors that show it.
//
// yaml-cpp parses; its events build this tree, so that what a scenario file has no use for (anchors, tags, several
// documents, nesting without end) is refused at its place before any memory is spent on it. Limits: kMaxFileBytes,
// kMaxYamlDepth, UTF-8 alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/program.h"

namespace zero3::sim {

constexpr size_t kMaxFileBytes = size_t{16} << 20;
constexpr size_t kMaxYamlDepth = 100;

struct YamlKey {
  std::string text;
  Place place;
};

struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  Place place;
  std::string scalar;
  std::vector<YamlKey> keys;    // of a map: keys[i] has the value items[i]
  std::vector<YamlNode> items;  // of a list or a map

  bool is_scalar() const { return kind == Kind::kScalar; }
  bool is_list() const { return kind == Kind::kList; }
  bool is_map() const { return kind == Kind::kMap; }
  bool is_null() const { return kind == Kind::kNull; }
  // The value of a key; null if the map has no such key.
  const YamlNode* find(std::string_view key) const;
  const YamlKey* find_key(std::string_view key) const;
};

class YamlFile {
 public:
  // Parses; `path` is shown in errors only. Throws BadInput.
  YamlFile(std::string path, std::string text);

  const std::string& path() const { return path_; }
  const YamlNode& root() const { return root_; }

  [[noreturn]] void fail(Place place, const std::string& message, const std::string& advice = "") const;

  // Where the scalar's byte at `offset` was written; the scalar's start where it was folded or escaped.
  Place place_in(const YamlNode& node, size_t offset) const;

  // Each throws BadInput unless the node is what is asked for; `what` names it: "stage", "a module".
  const YamlNode& map(const YamlNode& node, const std::string& what, const std::string& advice = "") const;
  const YamlNode& list(const YamlNode& node, const std::string& what, const std::string& advice = "") const;
  const std::string& text(const YamlNode& node, const std::string& what,
                          const std::string& advice = "") const;
  bool boolean(const YamlNode& node, const std::string& what) const;
  // Elements or other counts: 0 to `limit`; "5e8", 50_000_000 and 1.5e9 are numbers too.
  int64_t count(const YamlNode& node, const std::string& what, int64_t limit = int64_t{1} << 62) const;
  // Refuses keys that are not among `known`.
  void check_keys(const YamlNode& map, std::span<const std::string_view> known,
                  const std::string& what) const;

 private:
  std::string path_;
  std::string text_;
  YamlNode root_;
};

// Reads a file of at most kMaxFileBytes. Throws BadInput.
std::string read_text_file(const std::string& path);

// "did you mean 'fc1'?", or the known words where none is near; "" where there are none.
std::string suggestion(std::string_view word, std::span<const std::string_view> known);
std::string suggestion(std::string_view word, const std::vector<std::string>& known);

// A node as one short line: lists as their items, maps as "key: value, key: value"; at most `columns` bytes.
std::string short_text(const YamlNode& node, size_t columns = 72);

}  // namespace zero3::sim
