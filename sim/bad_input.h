// Input that cannot be run: where it is, what is wrong, what would be right.
#pragma once

#include <stdexcept>
#include <string>

#include "sim/program.h"

namespace zero3::sim {

class BadInput : public std::runtime_error {
 public:
  // `source`: file name, or a name such as "--program"; `text`: the whole source, to show the line ("": not shown).
  // Renders as `source:line:column: error: message`, the line, a caret, and `advice` on a line of its own.
  BadInput(const std::string& source, const std::string& text, Place place, const std::string& message,
           const std::string& advice = "");
  explicit BadInput(const std::string& message, const std::string& advice = "");
};

}  // namespace zero3::sim
