// A run's events as a file: JSON lines, format and version in docs/trace-format.md.
#pragma once

#include <string>

#include "sim/report/run_report.h"

namespace zero3::sim {

std::string trace_text(const RunReport& report);

// Writes all of it or nothing: to a file beside `path`, renamed when it is whole. Throws BadInput if it cannot.
void write_trace(const RunReport& report, const std::string& path);

}  // namespace zero3::sim
