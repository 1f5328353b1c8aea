// Sets of releases as people write and read them: "0.6.0 - 0.15.2, >= 0.19.4", "all".
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/release.h"

namespace zero3::sim {

// The releases that the text names, oldest first, without repeats. Throws BadInput under the name `source` with the
// column: unknown releases (says which are near), an empty or backward range.
std::vector<Release> parse_releases(std::string_view text, const std::string& source);

// Told what is wrong and where, in bytes from the text's start; it throws.
using ReleasesRefused =
    std::function<void(size_t offset, const std::string& message, const std::string& advice)>;
// The same for a text that stands in a file.
std::vector<Release> parse_releases(std::string_view text, const ReleasesRefused& refuse);

// Folds known releases into ranges: "0.6.0 - 0.15.2, 0.16.1"; "none". Precondition: ascending.
std::string fold(const std::vector<Release>& releases);

// The first known release for which `has` holds; nothing if none has it.
std::string first_release_with(const std::function<bool(const Release&)>& has);

}  // namespace zero3::sim
