#include "sim/scenario/text.h"

#include <algorithm>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "sim/scenario/yaml_reader.h"

namespace zero3::sim {
namespace {

constexpr size_t kMaxWordsShown = 12;

struct Utf8Class {
  unsigned char first, last;                // of the leading byte
  unsigned char second_first, second_last;  // of the byte after it: excludes overlong forms and surrogates
  size_t bytes;
};
constexpr Utf8Class kUtf8[] = {
    {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3}, {0xE1, 0xEC, 0x80, 0xBF, 3},
    {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3}, {0xF0, 0xF0, 0x90, 0xBF, 4},
    {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
};

// Bytes of the character at the front; 0: none is encoded there.
size_t utf8_bytes(std::string_view text) {
  const auto byte = [&text](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return 1;
  for (const Utf8Class& form : kUtf8) {
    if (byte(0) < form.first || byte(0) > form.last) continue;
    if (text.size() < form.bytes || byte(1) < form.second_first || byte(1) > form.second_last) return 0;
    for (size_t i = 2; i < form.bytes; ++i) {
      if ((byte(i) & 0xC0) != 0x80) return 0;
    }
    return form.bytes;
  }
  return 0;
}

bool is_control(char c) { return c >= 0 && c < ' ' && c != '\n' && c != '\r' && c != '\t'; }

Place place_at(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  return {static_cast<int>(std::ranges::count(before, '\n')) + 1, static_cast<int>(offset - line_start) + 1};
}

}  // namespace

std::optional<TextDefect> find_defect(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    if (is_control(text[i])) {
      return TextDefect{place_at(text, i),
                        fmt::format("a control character (0x{:02x}): this is not a text file", text[i]),
                        "a scenario is YAML text in UTF-8"};
    }
    const size_t bytes = utf8_bytes(text.substr(i));
    if (bytes == 0) {
      return TextDefect{place_at(text, i),
                        fmt::format("the byte 0x{:02x} is not UTF-8", static_cast<unsigned char>(text[i])),
                        "save the file as UTF-8"};
    }
    i += bytes;
  }
  return std::nullopt;
}

std::optional<Place> find_bracket_flood(std::string_view text) {
  int64_t open = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[' || text[i] == '{') ++open;
    if (text[i] == ']' || text[i] == '}') open = std::max<int64_t>(0, open - 1);
    if (open > kMaxOpenBrackets) return place_at(text, i);
  }
  return std::nullopt;
}

size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<size_t> before_last, last, row(to.size() + 1);
  for (size_t j = 0; j <= to.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= from.size(); ++i) {
    before_last = std::move(last);
    last = std::move(row);
    row.assign(to.size() + 1, i);
    for (size_t j = 1; j <= to.size(); ++j) {
      const size_t replace = last[j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
      row[j] = std::min({replace, last[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row.back();
}

std::string suggestion(std::string_view word, std::span<const std::string_view> known) {
  if (known.empty()) return "";
  const size_t tolerated = std::max<size_t>(2, std::min<size_t>(word.size(), 64) / 3);
  std::string_view best;
  size_t best_distance = tolerated + 1;
  for (const std::string_view candidate : known) {
    if (word.size() > 4 * candidate.size() + 8) continue;
    const size_t distance = edit_distance(word, candidate);
    // A word of two letters is near to everything short.
    if (distance >= best_distance || distance >= std::max(word.size(), candidate.size())) continue;
    best = candidate;
    best_distance = distance;
  }
  if (best_distance <= tolerated) return fmt::format("did you mean '{}'?", best);
  std::string words = "known are: ";
  for (size_t i = 0; i < std::min(known.size(), kMaxWordsShown); ++i)
    words += fmt::format("{}{}", i == 0 ? "" : ", ", known[i]);
  return known.size() > kMaxWordsShown ? words + ", ..." : words;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  const std::vector<std::string_view> views(known.begin(), known.end());
  return suggestion(word, std::span(views));
}

namespace {

void append_short(const YamlNode& node, bool outermost, size_t columns, std::string& out) {
  if (out.size() > columns) return;
  if (node.is_scalar()) out += node.scalar;
  if (node.is_list()) {
    if (!outermost) out += '[';
    for (size_t i = 0; i < node.items.size(); ++i) {
      if (i > 0) out += ' ';
      append_short(node.items[i], false, columns, out);
    }
    if (!outermost) out += ']';
  }
  if (node.is_map()) {
    if (!outermost) out += '{';
    for (size_t i = 0; i < node.items.size(); ++i) {
      out += (i > 0 ? ", " : "") + node.keys[i].text;
      if (node.items[i].is_null()) continue;
      out += ": ";
      append_short(node.items[i], node.items[i].is_list(), columns, out);
    }
    if (!outermost) out += '}';
  }
}

}  // namespace

std::string short_text(const YamlNode& node, size_t columns) {
  std::string out;
  append_short(node, true, columns, out);
  for (char& c : out) {
    if (c == '\n' || c == '\t' || c == '\r') c = ' ';
  }
  if (out.size() <= columns) return out;
  size_t end = columns - 3;
  while (end > 0 && (static_cast<unsigned char>(out[end]) & 0xC0) == 0x80) --end;  // not inside a character
  return out.substr(0, end) + "...";
}

}  // namespace zero3::sim
