// A run for a person: what failed, where, which params, why they were so, which releases do the same, how to repeat it.
#include <fmt/format.h>

#include "sim/release_selection.h"
#include "sim/report/devices_report.h"
#include "sim/report/named_ids.h"
#include "sim/report/ranks_report.h"
#include "sim/report/run_report.h"
#include "sim/report/silent_faults_report.h"
#include "sim/report/story.h"
#include "sim/report/tensors_report.h"
#include "sim/report/words.h"

namespace zero3::sim {
namespace {

constexpr size_t kMaxParams = 8;

std::string indented(const std::string& text, const std::string& prefix) {
  std::string out = prefix;
  for (const char c : text) {
    out += c;
    if (c == '\n') out += prefix;
  }
  return out;
}

// "a > b (3 times) > c"
std::string joined_path(const std::vector<std::string>& path) {
  std::string text;
  for (size_t i = 0; i < path.size();) {
    size_t last = i;
    while (last + 1 < path.size() && path[last + 1] == path[i]) ++last;
    text += (text.empty() ? "" : " > ") + path[i];
    if (last > i) text += fmt::format(" ({} times)", last - i + 1);
    i = last + 1;
  }
  return text;
}

std::string statement_of(const RunReport& report, int rank, size_t index) {
  return report.statements[static_cast<size_t>(rank)][index];
}

// The modules whose ids a text of DeepSpeed's shows, beneath it.
void add_names(std::string& out, const std::string& text, const Recording& recording) {
  if (const std::string names = module_names_in(text, recording); !names.empty())
    out += fmt::format("  names:  {}\n", names);
}

void add_failure(std::string& out, const RunReport& report, const RankResult& rank) {
  const RankFailure& failure = *rank.failure;
  out += indented(failure.exception + ": " + failure.text, "  ") + "\n";
  add_names(out, failure.text, report.recording_of(rank.rank));
  out += fmt::format("  at:     rank {}, step {} of the program ({})", rank.rank, failure.statement + 1,
                     statement_of(report, rank.rank, failure.statement));
  if (!failure.path.empty()) out += fmt::format(", in {}", joined_path(failure.path));
  out += "\n";
  const std::string_view rule = rule_of(failure.kind);
  if (!rule.empty()) out += fmt::format("  rule:   {}\n", rule);
  size_t shown = 0;
  for (const RankFailure::NamedParam& param : failure.params) {
    if (++shown > kMaxParams) {
      out += fmt::format("  and {} more params\n", failure.params.size() - kMaxParams);
      break;
    }
    out += fmt::format("  param:  {} (ds_id {}, {} elements) is {}\n", param.name, param.ds_id,
                       param.ds_numel, status_text(param.status));
    for (const std::string& line : story_of(report.recording_of(rank.rank), param.ds_id)) {
      out += fmt::format("            {}\n", line);
    }
  }
}

void add_other_ranks(std::string& out, const RunReport& report) {
  for (const RankResult& rank : report.result.ranks) {
    if (rank.rank == report.result.first_failed_rank) continue;
    if (rank.failure) {
      out += fmt::format("  rank {}: step {} ({}): {}: {}\n", rank.rank, rank.failure->statement + 1,
                         statement_of(report, rank.rank, rank.failure->statement), rank.failure->exception,
                         rank.failure->text);
      add_names(out, rank.failure->text, report.recording_of(rank.rank));
    } else if (report.result.failed()) {
      out += fmt::format("  rank {}: ran to its end\n", rank.rank);
    }
  }
}

void add_releases(std::string& out, const RunReport& report) {
  const AlikeReleases& releases = report.releases;
  if (report.failure() != nullptr) out += fmt::format("  fails alike:      {}\n", fold(releases.alike));
  out += fmt::format("  completes:        {}\n", fold(releases.completes));
  for (const auto& [kind, list] : releases.otherwise) {
    out += fmt::format("  fails otherwise:  {} ({})\n", fold(list), kind);
  }
  if (!releases.lacking.empty()) out += fmt::format("  cannot run it:    {}\n", fold(releases.lacking));
}

}  // namespace

std::string text_report(const RunReport& report) {
  const RankFailure* failure = report.failure();
  std::string out =
      fmt::format("{} on DeepSpeed {}, {} rank{}: {}", report.scenario, report.release.text(), report.ranks,
                  report.ranks == 1 ? "" : "s", failure == nullptr ? "completes" : name(failure->kind));
  out += fmt::format(" ({})\n", name(report.verdict));
  if (!report.title.empty()) out += fmt::format("  {}\n", report.title);
  if (!report.difference.empty()) {
    out += indented(report.difference, "  ") + "\n";
  }
  for (const Recording& recording : report.recordings) {
    for (const RecordedEvent& event : recording.events) {
      if (event.kind != EventKind::kPrint) continue;
      out += fmt::format("  prints: {}\n", event.text);
      add_names(out, event.text, recording);
    }
  }
  if (failure != nullptr) {
    add_failure(out, report, report.result.ranks[static_cast<size_t>(report.result.first_failed_rank)]);
  }
  add_other_ranks(out, report);
  out += ranks_text(report);
  out += silent_faults_text(report);
  out += tensors_text(report);
  out += devices_text(report);
  add_releases(out, report);
  out += fmt::format("  reproduce: {}\n", report.reproduce);
  return out;
}

}  // namespace zero3::sim
