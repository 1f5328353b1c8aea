// Words as a shell takes them.
#pragma once

#include <string>

namespace zero3::sim {

// A word as a POSIX shell reads it back.
std::string shell_word(const std::string& word);

}  // namespace zero3::sim
