// The report of `zero3sim verify` as text: a line for each run, and where one differs both runs side by side.
#include <algorithm>

#include <fmt/format.h>

#include "sim/verify/verify_report.h"

namespace zero3::sim {
namespace {

constexpr size_t kShownBefore = 10;  // lines that agree, before the one that differs
constexpr size_t kShownAfter = 1;    // and after it
constexpr size_t kSmallestColumn = 24;
constexpr size_t kShownFlags = 6;

// Cut to `width` columns, taken as bytes but for UTF-8 sequences, which are not cut in the middle; on one line.
std::string fitted(std::string text, size_t width) {
  std::ranges::replace(text, '\n', ' ');
  if (text.size() <= width) return text;
  size_t end = width - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

std::string line_at(const std::vector<TraceLine>& lines, size_t index) {
  return index < lines.size() ? lines[index].text : index == lines.size() ? "(end)" : "";
}

std::string side_by_side(const Difference& difference, size_t width) {
  const size_t column = std::max(kSmallestColumn, (width - 7) / 2);
  const auto row = [column](char mark, const std::string& model, const std::string& real) {
    std::string text =
        fmt::format("  {} {:<{}} | {}", mark, fitted(model, column), column, fitted(real, column));
    return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  };
  std::string text = row(' ', "model", "real DeepSpeed");
  const size_t at = difference.line;
  const size_t last = std::min(at + kShownAfter, std::max(difference.model.size(), difference.real.size()));
  for (size_t i = at - std::min(at, kShownBefore); i <= last; ++i)
    text += row(i == at ? '>' : ' ', line_at(difference.model, i), line_at(difference.real, i));
  return text;
}

// Both lines that differ, whole, if they are longer than the columns.
std::string whole_lines(const Difference& difference, size_t width) {
  const std::string model = line_at(difference.model, difference.line);
  const std::string real = line_at(difference.real, difference.line);
  if (std::max(model.size(), real.size()) <= std::max(kSmallestColumn, (width - 7) / 2)) return "";
  return fmt::format("  model: {}\n  real:  {}\n", model, real);
}

std::string deciding_text(const VerifiedRun& run, const ModelledRelease& modelled) {
  if (run.deciding.empty())
    return fmt::format("  decides: no single flag of the model of {}\n", modelled.release.text());
  std::string text;
  for (size_t i = 0; i < std::min(run.deciding.size(), kShownFlags); ++i) {
    const DecidingFlag& flag = run.deciding[i];
    text += fmt::format("  decides: {} = {} ({}, {}): the model then {}\n", flag.change.flag,
                        flag.change.value, flag.change.since.text(), flag.change.source,
                        flag.agrees_whole ? "agrees" : "agrees there, and differs later");
  }
  if (run.deciding.size() > kShownFlags)
    text += fmt::format("  and {} more flags that do\n", run.deciding.size() - kShownFlags);
  return text;
}

std::string heading(const VerifyReport& report) {
  std::string text = fmt::format("DeepSpeed {} (torch {}, Python {})\n", report.installed.deepspeed,
                                 report.installed.torch, report.installed.python);
  if (!report.modelled.exact) {
    text += fmt::format("No model of {}: compared with that of {}, the nearest\n", report.installed.deepspeed,
                        report.modelled.release.text());
  }
  return text;
}

std::string run_text(const VerifiedRun& run, const VerifyReport& report, size_t width) {
  std::string text = fmt::format("{}, {} rank{}: ", run.name, run.ranks, run.ranks == 1 ? "" : "s");
  const Comparison& comparison = run.comparison;
  if (!run.skipped.empty()) return text + "skipped: " + run.skipped + "\n";
  switch (comparison.outcome) {
    case Comparison::Outcome::kAgrees:
      text += fmt::format("agrees ({} statements, {} events)\n", comparison.statements, comparison.events);
      break;
    case Comparison::Outcome::kInconclusive: text += "inconclusive: " + comparison.text + "\n"; break;
    case Comparison::Outcome::kDiffers: {
      const Difference& difference = *comparison.difference;
      const std::string at =
          difference.statement < run.statements.size() ? run.statements[difference.statement] : "";
      text += fmt::format("differs at step {} ({}) on rank {}: {}\n", difference.statement + 1, at,
                          difference.rank, difference.what);
      text += side_by_side(difference, width) + whole_lines(difference, width) +
              deciding_text(run, report.modelled);
      break;
    }
  }
  if (!run.expected.empty()) text += "  the scenario's own expectation: " + run.expected + "\n";
  if (run.verdict != Verdict::kAsExpected) text += "  repeat: " + run.reproduce + "\n";
  return text;
}

std::string summary(const VerifyReport& report) {
  size_t agree = 0;
  size_t differ = 0;
  size_t inconclusive = 0;
  size_t skipped = 0;
  for (const VerifiedRun& run : report.runs) {
    size_t& count = !run.skipped.empty()                                           ? skipped
                    : run.comparison.outcome == Comparison::Outcome::kAgrees       ? agree
                    : run.comparison.outcome == Comparison::Outcome::kInconclusive ? inconclusive
                                                                                   : differ;
    ++count;
  }
  std::string text = fmt::format("{} agree, {} differ", agree, differ);
  if (inconclusive > 0) text += fmt::format(", {} inconclusive", inconclusive);
  if (skipped > 0) text += fmt::format(", {} skipped", skipped);
  return text + "\n";
}

}  // namespace

Verdict VerifyReport::verdict() const {
  Verdict verdict = Verdict::kAsExpected;
  bool any = false;
  for (const VerifiedRun& run : runs) {
    if (!run.skipped.empty()) continue;
    verdict = worse(verdict, run.verdict);
    any = true;
  }
  return any ? verdict : Verdict::kInconclusive;
}

std::string text_report(const VerifyReport& report, size_t width) {
  std::string text = heading(report);
  for (const VerifiedRun& run : report.runs) text += run_text(run, report, width);
  return report.runs.size() > 1 ? text + summary(report) : text;
}

}  // namespace zero3::sim
