// The module ids that a text of DeepSpeed's shows, with their names: the text itself stays as it is.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/report/recording.h"

namespace zero3::sim {

// In the order in which the text shows them, each once; those that no event named are left out. Ids are shown in
// "module 3", "module id: 3" and "'active_sub_modules': {3, 5}".
std::vector<std::pair<int, std::string>> module_ids_in(std::string_view text, const Recording& recording);

// "module 3 = fc2, module 2 = act"; at most a line's worth, "" if the text shows none.
std::string module_names_in(std::string_view text, const Recording& recording);

}  // namespace zero3::sim
