// What a run took of its ranks' GPUs, beside what the model counts.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "sim/report/run_report.h"

namespace zero3::sim {

// One line, of the rank that took most; "" on a backend without GPUs.
std::string devices_text(const RunReport& report);
nlohmann::ordered_json devices_json(const RunReport& report);

}  // namespace zero3::sim
