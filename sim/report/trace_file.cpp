#include "sim/report/trace_file.h"

#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/bad_input.h"
#include "sim/report/words.h"
#include "sim/whole_file.h"

namespace zero3::sim {
namespace {

using nlohmann::ordered_json;

constexpr int kTraceVersion = 1;

std::string line(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

ordered_json event_json(const Recording& recording, const RecordedEvent& event) {
  ordered_json out = {{"rank", recording.rank}, {"statement", event.statement}, {"event", name(event.kind)}};
  if (event.module_id >= 0) {
    out["module"] = event.module;
    out["module_id"] = event.module_id;
  }
  if (!event.ds_ids.empty()) {
    ordered_json names = ordered_json::array();
    for (const int id : event.ds_ids) names.push_back(recording.param_name(id));
    out["params"] = names;
    out["ds_ids"] = event.ds_ids;
  }
  if (event.step >= 0) out["step"] = event.step;
  if (event.kind == EventKind::kFetch || event.kind == EventKind::kRecord) {
    out["pass"] = event.forward ? "forward" : "backward";
  }
  if (event.reason != Reason::kNone) out["reason"] = name(event.reason);
  if (event.kind == EventKind::kPrefetchEnd) {
    out["chosen_numel"] = event.value;
    out["budget_numel"] = event.limit;
  }
  if (event.kind == EventKind::kInvalidate) {
    out["expected_module_id"] = event.value;
    out["trace_length"] = event.limit;
  }
  if (event.kind == EventKind::kKeep && event.reason == Reason::kStillActive && event.value >= 0)
    out["active_module_id"] = event.value;
  if (!event.text.empty()) out["text"] = event.text;
  return out;
}

void add_recording(std::string& out, const RunReport& report, const Recording& recording) {
  size_t next = 0;
  for (size_t statement = 0; statement < recording.statements.size(); ++statement) {
    out += line({{"rank", recording.rank},
                 {"statement", statement},
                 {"event", "statement"},
                 {"text", recording.statements[statement]}});
    for (; next < recording.events.size() && recording.events[next].statement == statement; ++next) {
      out += line(event_json(recording, recording.events[next]));
    }
    ordered_json end = {{"rank", recording.rank},
                        {"statement", statement},
                        {"event", "statement-end"},
                        {"statuses", recording.statuses[statement]}};
    const auto& failure = report.result.ranks[static_cast<size_t>(recording.rank)].failure;
    if (failure && failure->statement == statement) {
      end["failure"] = {{"kind", name(failure->kind)},
                        {"exception", failure->exception},
                        {"text", failure->text},
                        {"path", failure->path}};
    }
    out += line(end);
  }
}

}  // namespace

std::string trace_text(const RunReport& report) {
  std::string out = line({{"format", "zero3sim-trace"},
                          {"version", kTraceVersion},
                          {"scenario", report.scenario},
                          {"deepspeed", report.release.text()},
                          {"ranks", report.ranks},
                          {"seed", report.seed}});
  for (const Recording& recording : report.recordings) add_recording(out, report, recording);
  out += line({{"event", "end"}, {"verdict", name(report.verdict)}});
  return out;
}

void write_trace(const RunReport& report, const std::string& path) {
  write_whole_file(path, trace_text(report), "trace");
}

void write_traces(const std::vector<RunReport>& reports, const std::string& path) {
  const std::filesystem::path folder = path;
  if (!std::filesystem::is_directory(folder)) return write_trace(reports.front(), path);
  std::map<std::string, const RunReport*> by_name;
  for (const RunReport& report : reports) {
    const std::string name =
        fmt::format("{}-{}-{}.jsonl", report.scenario, report.release.text(), report.ranks);
    if (!by_name.try_emplace(name, &report).second)
      throw BadInput(
          fmt::format("two scenarios are named {}: their traces would have one name", report.scenario));
  }
  for (const auto& [name, report] : by_name) write_trace(*report, (folder / name).string());
}

}  // namespace zero3::sim
