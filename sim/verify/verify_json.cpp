// The report of `zero3sim verify` as JSON and as JUnit's XML.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/report/markup.h"
#include "sim/verify/verify_report.h"

namespace zero3::sim {
namespace {

using nlohmann::ordered_json;

constexpr int kVerifyVersion = 1;
constexpr size_t kJunitWidth = 120;

std::string_view outcome_name(const VerifiedRun& run) {
  if (!run.skipped.empty()) return "skipped";
  switch (run.comparison.outcome) {
    case Comparison::Outcome::kAgrees: return "agrees";
    case Comparison::Outcome::kDiffers: return "differs";
    case Comparison::Outcome::kInconclusive: return "inconclusive";
  }
  return "?";
}

ordered_json lines_json(const std::vector<TraceLine>& lines, size_t at) {
  constexpr size_t kBefore = 10;
  ordered_json out = ordered_json::array();
  for (size_t i = at - std::min(at, kBefore); i <= at && i < lines.size(); ++i) out.push_back(lines[i].text);
  return out;
}

ordered_json difference_json(const VerifiedRun& run) {
  const Difference& difference = *run.comparison.difference;
  ordered_json out = {
      {"rank", difference.rank},
      {"step", difference.statement + 1},
      {"statement",
       difference.statement < run.statements.size() ? run.statements[difference.statement] : std::string()},
      {"what", difference.what},
      {"model", lines_json(difference.model, difference.line)},
      {"real", lines_json(difference.real, difference.line)}};
  ordered_json flags = ordered_json::array();
  for (const DecidingFlag& flag : run.deciding) {
    flags.push_back({{"flag", flag.change.flag},
                     {"value", flag.change.value},
                     {"since", flag.change.since.text()},
                     {"source", flag.change.source},
                     {"agrees", flag.agrees_whole ? "whole run" : "there"}});
  }
  out["flags"] = flags;
  return out;
}

ordered_json run_json(const VerifiedRun& run) {
  ordered_json out = {{"scenario", run.name}, {"ranks", run.ranks}, {"seed", run.seed}};
  out["outcome"] = outcome_name(run);
  if (!run.skipped.empty()) {
    out["text"] = run.skipped;
    return out;
  }
  out["verdict"] = name(run.verdict);
  out["statements"] = run.comparison.statements;
  out["events"] = run.comparison.events;
  if (run.comparison.difference) out["difference"] = difference_json(run);
  if (run.comparison.outcome == Comparison::Outcome::kInconclusive) out["text"] = run.comparison.text;
  if (!run.expected.empty()) out["expectation"] = run.expected;
  out["reproduce"] = run.reproduce;
  return out;
}

std::string junit_case(const VerifiedRun& run, const VerifyReport& report) {
  const std::string begin =
      fmt::format("  <testcase classname=\"zero3sim.verify.deepspeed-{}\" name=\"{}, ranks {}\"",
                  markup_text(report.installed.deepspeed), markup_text(run.name), run.ranks);
  if (!run.skipped.empty())
    return fmt::format("{}>\n    <skipped message=\"{}\"/>\n  </testcase>\n", begin,
                       markup_text(run.skipped));
  if (run.verdict == Verdict::kAsExpected) return begin + "/>\n";
  const VerifyReport alone{report.installed, report.modelled, {run}};
  const std::string_view element = run.verdict == Verdict::kInconclusive ? "error" : "failure";
  return fmt::format("{}>\n    <{} type=\"{}\" message=\"{}\">{}</{}>\n  </testcase>\n", begin, element,
                     name(run.verdict), outcome_name(run), markup_text(text_report(alone, kJunitWidth)),
                     element);
}

}  // namespace

std::string json_report(const VerifyReport& report) {
  ordered_json out = {{"zero3sim", kVerifyVersion},
                      {"deepspeed", report.installed.deepspeed},
                      {"torch", report.installed.torch},
                      {"python", report.installed.python},
                      {"model", report.modelled.release.text()},
                      {"verdict", name(report.verdict())}};
  out["runs"] = ordered_json::array();
  for (const VerifiedRun& run : report.runs) out["runs"].push_back(run_json(run));
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string junit_report(const VerifyReport& report) {
  size_t failures = 0;
  size_t errors = 0;
  size_t skipped = 0;
  std::string cases;
  for (const VerifiedRun& run : report.runs) {
    cases += junit_case(run, report);
    if (!run.skipped.empty()) {
      ++skipped;
    } else if (run.verdict == Verdict::kInconclusive) {
      ++errors;
    } else if (run.verdict != Verdict::kAsExpected) {
      ++failures;
    }
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuite name=\"zero3sim verify\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n{}"
      "</testsuite>\n",
      report.runs.size(), failures, errors, skipped, cases);
}

}  // namespace zero3::sim
