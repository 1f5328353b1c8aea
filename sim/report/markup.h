// Text inside XML and HTML.
#pragma once

#include <string>
#include <string_view>

namespace zero3::sim {

// For an element or an attribute in double quotes. Control characters, which XML has no place for, become '?'.
std::string markup_text(std::string_view text);

}  // namespace zero3::sim
