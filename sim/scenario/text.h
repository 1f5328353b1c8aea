// Small help with the text of scenario files: what makes a file no text, and which known word a wrong one is near.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sim/program.h"

namespace zero3::sim {

struct TextDefect {
  Place place;
  std::string what;
  std::string advice;
};

// The first byte that UTF-8 text does not have: a control character, or bytes that encode nothing.
std::optional<TextDefect> find_defect(std::string_view text);

// Where more than kMaxOpenBrackets brackets were opened and not closed. yaml-cpp would take memory for each before it
// says a word; a bracket in a text counts too, which is why so many are allowed.
constexpr int64_t kMaxOpenBrackets = 10'000;
std::optional<Place> find_bracket_flood(std::string_view text);

// The fewest letters to insert, delete, replace or swap with a neighbour to get from one word to the other.
size_t edit_distance(std::string_view from, std::string_view to);

}  // namespace zero3::sim
