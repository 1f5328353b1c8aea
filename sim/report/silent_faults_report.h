// What went wrong though nothing was raised, and what a run moved and held: for people and for programs.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "sim/report/run_report.h"

namespace zero3::sim {

// A line each; "" if there is none.
std::string silent_faults_text(const RunReport& report);
nlohmann::ordered_json silent_faults_json(const RunReport& report);
nlohmann::ordered_json usage_json(const RunReport& report);

}  // namespace zero3::sim
