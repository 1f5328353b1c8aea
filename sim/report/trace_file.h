// A run's events as a file: JSON lines, format and version in docs/trace-format.md.
#pragma once

#include <string>
#include <vector>

#include "sim/report/run_report.h"

namespace zero3::sim {

std::string trace_text(const RunReport& report);

// Writes all of it or nothing: to a file beside `path`, renamed when it is whole. Throws BadInput if it cannot.
void write_trace(const RunReport& report, const std::string& path);

// The only report's to a file; to a folder each to one of its own, as in "deepspeed-5828-0.15.2-2.jsonl": scenario,
// release, ranks. Throws BadInput where two would have one name.
void write_traces(const std::vector<RunReport>& reports, const std::string& path);

}  // namespace zero3::sim
