#include "sim/bad_input.h"

#include <sstream>

#include <fmt/format.h>

namespace zero3::sim {
namespace {

constexpr size_t kShownColumns = 160;

std::string line_of(const std::string& text, int number) {
  std::istringstream lines(text);
  std::string line;
  for (int i = 0; i < number && std::getline(lines, line); ++i) {
  }
  return line;
}

// Printable ASCII as it is, tabs as one space, every other byte as '?': a caret stands under its column, and no byte of
// a hostile file reaches the terminal.
std::string printable(std::string line) {
  for (char& c : line) {
    if (c == '\t') c = ' ';
    if (c < ' ' || c > '~') c = '?';
  }
  return line;
}

std::string render(const std::string& source, const std::string& text, Place place,
                   const std::string& message, const std::string& advice) {
  std::string out = source;
  if (place.line > 0) out += fmt::format(":{}:{}", place.line, place.column);
  out += ": error: " + printable(message);
  if (place.line > 0 && !text.empty()) {
    const std::string line = printable(line_of(text, place.line));
    const auto column = static_cast<size_t>(place.column > 0 ? place.column - 1 : 0);
    const size_t first = column > kShownColumns / 2 ? column - kShownColumns / 2 : 0;
    out += "\n  " + line.substr(std::min(first, line.size()), kShownColumns);
    out += "\n  " + std::string(column - first, ' ') + "^";
  }
  if (!advice.empty()) out += "\n  " + advice;
  return out;
}

}  // namespace

BadInput::BadInput(const std::string& source, const std::string& text, Place place,
                   const std::string& message, const std::string& advice)
    : std::runtime_error(render(source, text, place, message, advice)) {}

BadInput::BadInput(const std::string& message, const std::string& advice)
    : std::runtime_error("error: " + message + (advice.empty() ? "" : "\n  " + advice)) {}

}  // namespace zero3::sim
