// Just enough of C++'s lexical rules to look at code without its comments and strings, and to find its functions.
// Relies on the layout that clang-format enforces; it is no parser.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace zero3::tidy {

enum class Literals { kKeep, kBlank };

// The text with comments, and the contents of literals if asked, replaced by spaces. Line breaks stay.
std::string without_comments(std::string_view text, Literals literals);

std::vector<std::string> lines_of(std::string_view text);

struct Function {
  int first_line;  // of its signature, from 1
  int last_line;   // of its closing brace
};

// The functions defined in a file, members included; lambdas and initialisers count as part of what holds them.
std::vector<Function> functions_of(std::string_view text);

}  // namespace zero3::tidy
