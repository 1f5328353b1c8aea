// What real tensors came to, for a person and for programs.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "sim/report/run_report.h"

namespace zero3::sim {

// Lines of the text report; empty where params had no values.
std::string tensors_text(const RunReport& report);
// One object a rank, by rank; null where params had no values.
nlohmann::ordered_json tensors_json(const RunReport& report);

}  // namespace zero3::sim
