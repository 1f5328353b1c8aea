// What a rank tells rank 0 when its run has ended, as bytes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/backends/device_usage.h"
#include "sim/backends/marked_data.h"
#include "sim/rank_run.h"
#include "sim/watched_run.h"

namespace zero3::sim {

struct RankReport {
  RankRun run = {};
  Recording recording = {};
  RankAudit audit = {};
  std::vector<WrongData> wrong = {};
  std::optional<DeviceUsage> device = {};  // on a backend with GPUs
};

std::string to_bytes(const RankReport& report);
RankReport rank_report_of(const std::string& bytes);

}  // namespace zero3::sim
