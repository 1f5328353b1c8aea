// A run for programs. Keys are documented in docs/json-report.md; adding keys is no new version, changing one is.
#include <nlohmann/json.hpp>

#include "sim/release_selection.h"
#include "sim/report/devices_report.h"
#include "sim/report/named_ids.h"
#include "sim/report/ranks_report.h"
#include "sim/report/run_report.h"
#include "sim/report/silent_faults_report.h"
#include "sim/report/story.h"
#include "sim/report/tensors_report.h"

namespace zero3::sim {
namespace {

using nlohmann::ordered_json;

constexpr int kReportVersion = 1;

ordered_json failure_json(const RunReport& report, const RankResult& rank) {
  const RankFailure& failure = *rank.failure;
  ordered_json params = ordered_json::array();
  for (const RankFailure::NamedParam& param : failure.params) {
    params.push_back({{"ds_id", param.ds_id},
                      {"name", param.name},
                      {"status", status_text(param.status)},
                      {"ds_numel", param.ds_numel},
                      {"story", story_of(report.recording_of(rank.rank), param.ds_id)}});
  }
  ordered_json modules = ordered_json::array();
  for (const auto& [id, module_name] : module_ids_in(failure.text, report.recording_of(rank.rank)))
    modules.push_back({{"id", id}, {"name", module_name}});
  return {{"kind", name(failure.kind)},
          {"exception", failure.exception},
          {"text", failure.text},
          {"modules", modules},
          {"rank", rank.rank},
          {"at",
           {{"step", failure.statement + 1},
            {"statement", report.statements[static_cast<size_t>(rank.rank)][failure.statement]},
            {"path", failure.path}}},
          {"params", params}};
}

ordered_json texts(const std::vector<Release>& releases) {
  ordered_json list = ordered_json::array();
  for (const Release& release : releases) list.push_back(release.text());
  return list;
}

ordered_json to_json(const RunReport& report) {
  ordered_json out = {
      {"zero3sim", kReportVersion}, {"scenario", report.scenario}, {"deepspeed", report.release.text()},
      {"ranks", report.ranks},      {"seed", report.seed},         {"verdict", name(report.verdict)}};
  if (!report.expected.empty()) out["expected"] = report.expected;
  if (!report.difference.empty()) out["difference"] = report.difference;
  const int first = report.result.first_failed_rank;
  out["failure"] = first < 0 ? ordered_json(nullptr)
                             : failure_json(report, report.result.ranks[static_cast<size_t>(first)]);
  ordered_json others = ordered_json::array();
  for (const RankResult& rank : report.result.ranks) {
    if (rank.failure && rank.rank != first) others.push_back(failure_json(report, rank));
  }
  out["other_ranks"] = others;
  out["ranks_differ"] = ranks_json(report);
  out["corruptions"] = report.result.corruptions;
  ordered_json printed = ordered_json::array();
  for (const Recording& recording : report.recordings) {
    for (const RecordedEvent& event : recording.events) {
      if (event.kind == EventKind::kPrint) printed.push_back(event.text);
    }
  }
  out["printed"] = printed;
  out["silent_faults"] = silent_faults_json(report);
  out["usage"] = usage_json(report);
  if (!report.tensors.empty()) out["tensors"] = tensors_json(report);
  if (!report.devices.empty()) out["devices"] = devices_json(report);
  ordered_json otherwise = ordered_json::object();
  for (const auto& [kind, list] : report.releases.otherwise) otherwise[kind] = texts(list);
  out["releases"] = {{"alike", texts(report.releases.alike)},
                     {"completes", texts(report.releases.completes)},
                     {"otherwise", otherwise},
                     {"lacking", texts(report.releases.lacking)}};
  out["reproduce"] = report.reproduce;
  return out;
}

// Texts may hold any bytes of a scenario file; those that are not UTF-8 are replaced rather than refused.
std::string dumped(const ordered_json& json) {
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string json_report(const RunReport& report) { return dumped(to_json(report)); }

std::string json_report(const std::vector<RunReport>& reports) {
  ordered_json list = ordered_json::array();
  for (const RunReport& report : reports) list.push_back(to_json(report));
  return dumped(list);
}

}  // namespace zero3::sim
