#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/fixes/fix_report.h"
#include "sim/release_selection.h"

namespace zero3::sim {
namespace {

std::string rank_count(int ranks) { return fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s"); }

// To three places, without what is zero behind the point.
std::string number(double value) {
  std::string text = fmt::format("{:.3f}", std::abs(value));
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string list_of(const std::vector<int>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size(); ++i) {
    text += i == 0 ? "" : i + 1 == numbers.size() ? " and " : ", ";
    text += std::to_string(numbers[i]);
  }
  return text;
}

// "a step: 2 more all-gathers, 1.5 more of them waited for at once; 64 more elements live at the peak"
std::string cost_text(const Measure& more, bool by_forward) {
  std::string text;
  const auto add = [&text](double value, const char* what) {
    if (std::abs(value) < 0.0005) return;
    text += fmt::format("{}{} {} {}", text.empty() ? "" : ", ", number(value), value > 0 ? "more" : "fewer",
                        what);
  };
  add(more.all_gathers, "all-gathers");
  add(more.exposed, "all-gathers waited for at once");
  add(more.numel, "elements moved");
  if (!text.empty()) text = (by_forward ? "a forward: " : "a step: ") + text;
  if (more.peak_numel != 0) {
    text += fmt::format("{}{} {} elements live at the peak", text.empty() ? "" : "; ",
                        std::abs(more.peak_numel), more.peak_numel > 0 ? "more" : "fewer");
  }
  return text;
}

// The name by which --fix takes it, and what it changes.
std::string candidate_text(const Candidate& candidate) {
  std::string text = candidate.id;
  if (candidate.id != candidate.what) text += ": " + candidate.what;
  if (candidate.id == candidate.what && candidate.release) text += ": DeepSpeed " + candidate.release->text();
  std::string names = candidate.id == candidate.what ? "in the file" : "";
  for (const std::string& name : candidate.names) names += (names.empty() ? "in the file: " : ", ") + name;
  return names.empty() ? text : text + " (" + names + ")";
}

std::string result_text(const FixResult& result, bool by_forward) {
  const std::string text = candidate_text(result.candidate);
  std::vector<std::string> lines;
  if (result.cure == Cure::kNotCured) lines.push_back(ending_text(result.outcome));
  if (result.counterexample) lines.push_back("but " + counterexample_text(*result.counterexample));
  for (const SilentFault& fault : result.faults)
    lines.push_back(fmt::format("silent: {} ({})", name(fault.kind), name(fault.consequence)));
  if (result.more) {
    const std::string cost = cost_text(*result.more, by_forward);
    if (!cost.empty()) lines.push_back(cost);
  }
  std::string all = fmt::format("  {:<10}  {}\n", name(result.cure), text);
  for (const std::string& line : lines) all += std::string(14, ' ') + line + "\n";
  return all;
}

// Those that do not apply, a line each reason.
std::string inapplicable_text(const FixReport& report) {
  std::vector<std::pair<std::string, std::string>> reasons;
  for (const FixResult& result : report.results) {
    if (result.cure != Cure::kDoesNotApply) continue;
    const auto same = std::ranges::find(reasons, result.why, &std::pair<std::string, std::string>::first);
    if (same != reasons.end()) {
      same->second += ", " + result.candidate.id;
    } else {
      reasons.emplace_back(result.why, result.candidate.id);
    }
  }
  std::string text;
  for (const auto& [why, ids] : reasons) text += fmt::format("    {}: {}\n", ids, why);
  return text.empty() ? "" : fmt::format("  {}:\n{}", name(Cure::kDoesNotApply), text);
}

}  // namespace

Verdict verdict_of(const FixReport& report) {
  if (report.ailment.empty()) return Verdict::kInconclusive;
  return report.smallest() >= 0 ? Verdict::kAsExpected : Verdict::kNotAsExpected;
}

std::string ending_text(const Outcome& outcome) {
  if (outcome.failure) {
    return fmt::format("{} at step {} ({})", name(outcome.failure->kind), outcome.failure->statement + 1,
                       outcome.failure->statement_text);
  }
  if (outcome.end == End::kLacking) return outcome.lacking;
  return cell_word(outcome);
}

std::string counterexample_text(const Counterexample& counterexample) {
  const std::string ranks = "on " + rank_count(counterexample.ranks);
  const std::string what = counterexample.what.empty() ? "" : ", " + counterexample.what;
  return fmt::format("{}{}: {}", ranks, what, ending_text(counterexample.outcome));
}

std::string headline(const FixReport& report) {
  if (report.outcome.end == End::kLacking) return "cannot run it";
  const std::string ending = report.ailment.empty() ? "nothing to cure" : ending_text(report.outcome);
  return ending + (report.partial ? ", recorded in part" : "");
}

std::string fixes_body(const FixReport& report) {
  if (report.ailment.empty()) return "";
  std::string text;
  const std::string variations = report.variations == report.possible_variations
                                     ? fmt::format("{}", report.variations)
                                     : fmt::format("{} of {}", report.variations, report.possible_variations);
  text += fmt::format("  each tried on the program as it is and {} variation{} of it, on {} ranks\n",
                      variations, report.possible_variations == 1 ? "" : "s", list_of(report.world_sizes));
  text += report.baseline ? fmt::format("  costs: against {}\n", report.baseline->what)
                          : "  costs: not known, for nothing like it completes here\n";
  const bool by_forward = report.baseline && report.baseline->by_forward;
  for (const FixResult& result : report.results) {
    if (result.cure != Cure::kDoesNotApply) text += result_text(result, by_forward);
  }
  text += inapplicable_text(report);
  const int smallest = report.smallest();
  text += smallest < 0
              ? "  smallest:   nothing that was tried cures all of that\n"
              : fmt::format("  smallest:   {}\n", report.results[static_cast<size_t>(smallest)].candidate.id);
  return text;
}

std::string fixes_text(const FoldedFixReport& folded, const std::string& reproduce) {
  const FixReport& report = folded.report;
  std::string text = fmt::format("{} on DeepSpeed {}, {}: {}\n", report.name, fold(folded.releases),
                                 rank_count(report.ranks), headline(report));
  text += fixes_body(report);
  return text + fmt::format("  reproduce: {}\n", reproduce);
}

}  // namespace zero3::sim
