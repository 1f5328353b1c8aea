#include "sim/scenario/number.h"

#include <limits>
#include <optional>
#include <string>

namespace zero3::sim {
namespace {

constexpr int64_t kMaxExponent = 400;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Takes the digits at the front, underscores between two of them left out. Nothing where there is a stray underscore.
std::optional<std::string> take_digits(std::string_view& text) {
  std::string digits;
  while (!text.empty() && (is_digit(text.front()) || text.front() == '_')) {
    const bool underscore = text.front() == '_';
    if (underscore && (digits.empty() || text.size() < 2 || !is_digit(text[1]))) return std::nullopt;
    if (!underscore) digits += text.front();
    text.remove_prefix(1);
  }
  return digits;
}

// The power of ten after the digits; nothing if there is something else.
std::optional<int64_t> take_exponent(std::string_view text) {
  if (text.empty()) return 0;
  if (text.front() != 'e' && text.front() != 'E') return std::nullopt;
  text.remove_prefix(1);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const std::optional<std::string> digits = take_digits(text);
  if (!digits || digits->empty() || !text.empty()) return std::nullopt;
  int64_t exponent = 0;
  for (const char digit : *digits) {
    if (exponent < kMaxExponent) exponent = exponent * 10 + (digit - '0');
  }
  return negative ? -exponent : exponent;
}

}  // namespace

Number parse_number(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  std::optional<std::string> digits = take_digits(text);
  std::optional<std::string> fraction = std::string();
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    fraction = take_digits(text);
  }
  const std::optional<int64_t> exponent = take_exponent(text);
  if (!digits || !fraction || !exponent || (digits->empty() && fraction->empty())) return {};
  *digits += *fraction;
  int64_t shift = *exponent - static_cast<int64_t>(fraction->size());
  while (shift < 0 && digits->size() > 1 && digits->back() == '0') {
    digits->pop_back();
    ++shift;
  }
  if (digits->find_first_not_of('0') == std::string::npos) return {Number::Kind::kWhole, 0};
  if (negative) return {Number::Kind::kNegative, 0};
  if (shift < 0) return {Number::Kind::kFraction, 0};
  int64_t value = 0;
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < digits->size() + static_cast<size_t>(shift); ++i) {
    const int64_t digit = i < digits->size() ? (*digits)[i] - '0' : 0;
    if (value > (kMax - digit) / 10) return {Number::Kind::kTooLarge, 0};
    value = value * 10 + digit;
  }
  return {Number::Kind::kWhole, value};
}

}  // namespace zero3::sim
