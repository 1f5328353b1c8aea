#include "sim/report/silent_faults_report.h"

#include <algorithm>

#include <fmt/format.h>

#include "sim/outcome/outcome_json.h"
#include "sim/release_selection.h"

namespace zero3::sim {
namespace {

// "a, b and 3 more"
std::string some_of(const std::vector<std::string>& names) {
  constexpr size_t kShown = 3;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
  return text;
}

std::string explained(const SilentFault& fault) {
  const size_t step = fault.statement + 1;
  switch (fault.kind) {
    case SilentFaultKind::kStaleWeights:
      return fmt::format(
          "from step {} on a module computes with weights from before the optimizer's update: {}", step,
          some_of(fault.params));
    case SilentFaultKind::kUnreleasedParams:
      return fmt::format(
          "from step {} on {} elements stay gathered until the optimizer's step, for their modules are "
          "never told that backward is over: {}",
          step, fault.live_numel, some_of(fault.params));
    case SilentFaultKind::kPrefetchDisabled:
      return fmt::format(
          "the trace is invalidated again and again: from step {} on nothing is prefetched, and "
          "{:.3g} all-gathers a step are waited for where they are needed",
          step, fault.exposed_all_gathers_per_step);
    case SilentFaultKind::kPrefetchThrownAway:
      return fmt::format(
          "prefetched params are released unused and gathered again, first in step {}: {:.3g} "
          "all-gathers and {:.6g} elements more a training step: {}",
          step, fault.all_gathers_per_step, fault.numel_per_step, some_of(fault.params));
  }
  return "";
}

}  // namespace

std::string silent_faults_text(const RunReport& report) {
  std::string out;
  const std::vector<Release> failing = report.failing_releases();
  const std::string crashes =
      failing.empty() || report.failure() != nullptr ? "" : "; crashes on " + fold(failing);
  for (const RankAudit& audit : report.audits) {
    for (const SilentFault& fault : audit.faults) {
      out += fmt::format("  silent: {}{} ({}): {}{}\n",
                         report.audits.size() > 1 ? fmt::format("rank {}: ", audit.rank) : "",
                         name(fault.kind), name(fault.consequence), explained(fault), crashes);
    }
  }
  return out;
}

nlohmann::ordered_json silent_faults_json(const RunReport& report) {
  nlohmann::ordered_json faults = nlohmann::ordered_json::array();
  for (const RankAudit& audit : report.audits) {
    for (const SilentFault& fault : audit.faults) {
      nlohmann::ordered_json& item = faults.emplace_back(nlohmann::ordered_json{
          {"kind", name(fault.kind)}, {"consequence", name(fault.consequence)}, {"rank", audit.rank}});
      item.update(fault_json(fault));
    }
  }
  return faults;
}

nlohmann::ordered_json usage_json(const RunReport& report) {
  nlohmann::ordered_json usage = nlohmann::ordered_json::array();
  for (const RankAudit& audit : report.audits) {
    usage.push_back({{"rank", audit.rank},
                     {"all_gathers", audit.usage.all_gathers},
                     {"gathered_numel", audit.usage.gathered_numel},
                     {"peak_live_numel", audit.usage.peak_live_numel},
                     {"optimizer_steps", audit.usage.optimizer_steps}});
  }
  return usage;
}

}  // namespace zero3::sim
