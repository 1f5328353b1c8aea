// Reads the first line of a run: settings, engines, modules.
#pragma once

#include "sim/run_file/json_fields.h"
#include "sim/run_file/run_file.h"

namespace zero3::sim {

constexpr int64_t kMaxRunRanks = 65'536;

struct RunHeader {
  RecordedRun run;  // without programs
  int ranks = 1;
};

// Throws BadInput at the place of what is wrong.
RunHeader read_run_header(const JsonPlace& place, const JsonNode& line);

// The number of a module, and of one of its parameters: [module, param].
int module_index(const JsonPlace& place, const JsonNode& node, const ModelSpec& model);
ParamRef param_ref(const JsonPlace& place, const JsonNode& node, const ModelSpec& model);

}  // namespace zero3::sim
