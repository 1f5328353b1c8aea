// Files that appear whole or not at all.
#pragma once

#include <string>

namespace zero3::sim {

// Writes to a file beside `path`, renamed when it is whole. `what`: "trace". Throws BadInput if it cannot.
void write_whole_file(const std::string& path, const std::string& text, const std::string& what);

}  // namespace zero3::sim
