// The rules of the house that no compiler checks: sizes, layers, dead files, and what must not reach an output.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace zero3::tidy {

// Path from the repository's root to content, of the files that the rules know of.
using Tree = std::map<std::string, std::string>;

// "path:line: what is wrong", in the tree's order.
using Findings = std::vector<std::string>;

Findings too_long(const Tree& tree);        // lines, functions, files
Findings dead_files(const Tree& tree);      // headers, sources, documents, scenarios that nothing leads to
Findings crossed_layers(const Tree& tree);  // includes against the direction of the arrows
Findings stray_versions(
    const Tree& tree);  // a release's number or a comparison of releases outside its one place
Findings repeated_types(
    const Tree& tree);  // a type's name that another file defines in the same namespace: undefined behaviour
Findings banned_words(const Tree& tree);  // what a deterministic program, or this project, does without

}  // namespace zero3::tidy
