#include "sim/report/devices_report.h"

#include <algorithm>

#include <fmt/format.h>

namespace zero3::sim {
namespace {

constexpr int64_t kElementBytes = 4;  // of the words that stand for elements

int64_t peak_live_numel(const RunReport& report, size_t rank) {
  const int like = report.result.ranks[rank].like_rank;
  const auto audit = std::ranges::find(report.audits, like, &RankAudit::rank);
  return audit == report.audits.end() ? 0 : audit->usage.peak_live_numel;
}

}  // namespace

std::string devices_text(const RunReport& report) {
  if (report.devices.empty()) return "";
  const auto most = std::ranges::max_element(report.devices, {}, &DeviceUsage::peak_bytes);
  const auto rank = static_cast<size_t>(most - report.devices.begin());
  const int64_t numel = peak_live_numel(report, rank);
  return fmt::format(
      "  device memory: rank {} on GPU {}: {} bytes at most, {} with NCCL's; the model: {} live elements, {} "
      "bytes\n",
      rank, most->gpu, most->peak_bytes, most->driver_peak_bytes, numel, numel * kElementBytes);
}

nlohmann::ordered_json devices_json(const RunReport& report) {
  nlohmann::ordered_json devices = nlohmann::ordered_json::array();
  for (size_t rank = 0; rank < report.devices.size(); ++rank) {
    const DeviceUsage& device = report.devices[rank];
    devices.push_back({{"rank", rank},
                       {"gpu", device.gpu},
                       {"peak_bytes", device.peak_bytes},
                       {"driver_peak_bytes", device.driver_peak_bytes},
                       {"peak_live_numel", peak_live_numel(report, rank)},
                       {"peak_fetch_events", device.peak_fetch_events},
                       {"blocked_fetches", device.blocked_fetches}});
  }
  return devices;
}

}  // namespace zero3::sim
