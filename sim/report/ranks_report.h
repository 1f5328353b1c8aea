// What a run of ranks that differ is told as: who left the common program, the first collective in which they disagree,
// who waits for whom, and which parameters hold another's data.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "sim/report/run_report.h"

namespace zero3::sim {

// Lines for a person; "" where it has nothing to say: one rank, or nothing happened.
std::string ranks_text(const RunReport& report);
// docs/json-report.md, `ranks_differ`: null where all ranks have the same program.
nlohmann::ordered_json ranks_json(const RunReport& report);

}  // namespace zero3::sim
