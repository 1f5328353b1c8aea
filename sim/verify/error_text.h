// Whether two error texts are the same but for what no release of DeepSpeed decides: the values in a tensor, the
// order of Python's sets, folders, the files and lines of a traceback within a text, the exception that a torch
// release chose.
#pragma once

#include <string>

namespace zero3::sim {

// `a` and `b`: "RuntimeError: text", whole.
bool same_error(const std::string& a, const std::string& b);

// Without folders, tracebacks within the text, and the type that torch.cat raises.
std::string without_places(const std::string& error);

}  // namespace zero3::sim
