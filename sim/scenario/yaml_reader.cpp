#include "sim/scenario/yaml_reader.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "sim/bad_input.h"
#include "sim/scenario/number.h"
#include "sim/scenario/text.h"

namespace zero3::sim {
namespace {

// yaml-cpp gives a plain scalar the tag "?", a quoted one "!", and hands on what the author wrote otherwise.
bool is_own_tag(const std::string& tag) { return tag.empty() || tag == "?" || tag == "!"; }

Place place_of(const YAML::Mark& mark) {
  return mark.line < 0 ? Place{} : Place{mark.line + 1, mark.column + 1};
}

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const std::string& path, const std::string& text) : path_(path), text_(text) {}

  YamlNode take() { return std::move(root_); }
  // The start of what is being read; line 0: nothing is.
  Place innermost() const { return open_.empty() ? Place{} : open_.back().node.place; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1)
      fail(place_of(mark), "a second YAML document", "a file holds one scenario: split it");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    check(mark, "", anchor);
    add(YamlNode{.place = place_of(mark), .scalar = {}, .keys = {}, .items = {}});
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override { check(mark, "", anchor); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check(mark, tag, anchor);
    add(YamlNode{YamlNode::Kind::kScalar, place_of(mark), value, {}, {}});
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open(mark, tag, anchor, YamlNode::Kind::kList);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open(mark, tag, anchor, YamlNode::Kind::kMap);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    YamlNode node;
    std::optional<YamlKey> key = {};  // read, and waiting for its value
    std::set<std::string> keys = {};
  };

  [[noreturn]] void fail(Place place, const std::string& message, const std::string& advice) const {
    throw BadInput(path_, text_, place, message, advice);
  }

  void check(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) const {
    if (anchor != 0) {
      fail(place_of(mark), "anchors and aliases are not used here",
           "name a plan under 'plans:' and write its name");
    }
    if (!is_own_tag(tag))
      fail(place_of(mark), fmt::format("the tag '{}' is not used here", tag), "leave it out");
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YamlNode::Kind kind) {
    check(mark, tag, anchor);
    const Place place = place_of(mark);
    if (open_.size() >= kMaxYamlDepth)
      fail(place, fmt::format("nested more than {} deep", kMaxYamlDepth), "");
    open_.push_back(Frame{YamlNode{kind, place, {}, {}, {}}});
  }

  void close() {
    YamlNode node = std::move(open_.back().node);
    open_.pop_back();
    add(std::move(node));
  }

  void add(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& frame = open_.back();
    if (frame.node.is_map() && !frame.key) {
      if (!node.is_scalar()) fail(node.place, "a key must be a word", "for example name: my-scenario");
      if (!frame.keys.insert(node.scalar).second) {
        fail(node.place, fmt::format("duplicate key '{}'", node.scalar), "keep one of them");
      }
      frame.key = YamlKey{std::move(node.scalar), node.place};
      return;
    }
    if (frame.node.is_map()) {
      if (node.is_null()) node.place = frame.key->place;  // yaml-cpp's mark is already at what follows
      frame.node.keys.push_back(std::move(*frame.key));
      frame.key.reset();
    }
    frame.node.items.push_back(std::move(node));
  }

  const std::string& path_;
  const std::string& text_;
  std::vector<Frame> open_;
  YamlNode root_;
  int documents_ = 0;
};

YamlNode parse_yaml(const std::string& path, const std::string& text) {
  TreeBuilder builder(path, text);
  std::istringstream stream(text);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    Place place = place_of(error.mark);
    // At the end of a file there is nothing to show: what was left open is.
    const bool at_end = place.line > std::ranges::count(text, '\n') + (text.ends_with('\n') ? 0 : 1);
    if (at_end && builder.innermost().line > 0) place = builder.innermost();
    throw BadInput(path, text, place, "not YAML: " + error.msg,
                   "look at the indentation, the brackets and the quotes here and above");
  }
  return builder.take();
}

}  // namespace

const YamlNode* YamlNode::find(std::string_view key) const {
  const auto found = std::ranges::find(keys, key, &YamlKey::text);
  return found == keys.end() ? nullptr : &items[static_cast<size_t>(found - keys.begin())];
}

const YamlKey* YamlNode::find_key(std::string_view key) const {
  const auto found = std::ranges::find(keys, key, &YamlKey::text);
  return found == keys.end() ? nullptr : &*found;
}

YamlFile::YamlFile(std::string path, std::string text) : path_(std::move(path)), text_(std::move(text)) {
  if (text_.size() > kMaxFileBytes) {
    throw BadInput(path_, "", Place{}, fmt::format("more than {} MiB", kMaxFileBytes >> 20),
                   "a scenario is written by hand: is this the right file?");
  }
  if (const std::optional<TextDefect> defect = find_defect(text_))
    fail(defect->place, defect->what, defect->advice);
  if (const std::optional<Place> place = find_bracket_flood(text_)) fail(*place, "brackets without end");
  root_ = parse_yaml(path_, text_);
  if (root_.is_null()) {
    throw BadInput(path_, "", Place{}, "the file is empty",
                   "a scenario has at least zero3sim, model and program (docs/scenario-format.md)");
  }
}

void YamlFile::fail(Place place, const std::string& message, const std::string& advice) const {
  throw BadInput(path_, text_, place, message, advice);
}

Place YamlFile::place_in(const YamlNode& node, size_t offset) const {
  std::string_view rest = text_;
  for (int line = 1; line < node.place.line; ++line)
    rest.remove_prefix(std::min(rest.find('\n') + 1, rest.size()));
  rest = rest.substr(0, rest.find('\n'));
  size_t start = static_cast<size_t>(node.place.column - 1);
  if (start < rest.size() && (rest[start] == '"' || rest[start] == '\'')) ++start;
  if (start > rest.size() || rest.substr(start, node.scalar.size()) != node.scalar) return node.place;
  return {node.place.line, static_cast<int>(start + std::min(offset, node.scalar.size())) + 1};
}

const YamlNode& YamlFile::map(const YamlNode& node, const std::string& what,
                              const std::string& advice) const {
  if (!node.is_map())
    fail(node.place, what + " must be a mapping", advice.empty() ? "write key: value" : advice);
  return node;
}

const YamlNode& YamlFile::list(const YamlNode& node, const std::string& what,
                               const std::string& advice) const {
  if (!node.is_list()) fail(node.place, what + " must be a list", advice.empty() ? "write [a, b]" : advice);
  return node;
}

const std::string& YamlFile::text(const YamlNode& node, const std::string& what,
                                  const std::string& advice) const {
  if (!node.is_scalar() || node.scalar.empty()) fail(node.place, what + " must be a text", advice);
  return node.scalar;
}

bool YamlFile::boolean(const YamlNode& node, const std::string& what) const {
  if (node.is_scalar() && (node.scalar == "true" || node.scalar == "True")) return true;
  if (node.is_scalar() && (node.scalar == "false" || node.scalar == "False")) return false;
  fail(node.place, what + " must be true or false");
}

int64_t YamlFile::count(const YamlNode& node, const std::string& what, int64_t limit) const {
  if (!node.is_scalar()) fail(node.place, what + " must be a number", "for example 50_000_000 or 5e7");
  const Number number = parse_number(node.scalar);
  switch (number.kind) {
    case Number::Kind::kNotANumber:
      fail(node.place, fmt::format("{} must be a number, not '{}'", what, short_text(node, 40)),
           "for example 50_000_000 or 5e7");
    case Number::Kind::kNegative: fail(node.place, what + " is negative", "it counts: 0 or more");
    case Number::Kind::kFraction: fail(node.place, what + " is not a whole number");
    case Number::Kind::kTooLarge: break;
    case Number::Kind::kWhole:
      if (number.value <= limit) return number.value;
  }
  fail(node.place, what + " is too large", fmt::format("at most {}", limit));
}

void YamlFile::check_keys(const YamlNode& map, std::span<const std::string_view> known,
                          const std::string& what) const {
  for (const YamlKey& key : map.keys) {
    if (std::ranges::find(known, key.text) != known.end()) continue;
    fail(key.place, fmt::format("unknown key '{}' in {}", key.text, what), suggestion(key.text, known));
  }
}

std::string read_text_file(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    throw BadInput(path, "", Place{}, "this is a folder", "name a file");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw BadInput(path, "", Place{}, "cannot be read: " + std::generic_category().message(errno));
  constexpr size_t kPartBytes = size_t{16} * 1024;
  std::string text;
  while (file && text.size() <= kMaxFileBytes) {  // one byte more than allowed is enough to say so
    const size_t size = text.size();
    text.resize(size + kPartBytes);
    file.read(text.data() + size, kPartBytes);
    text.resize(size + static_cast<size_t>(file.gcount()));
  }
  return text;
}

}  // namespace zero3::sim
