#include "sim/leaf_race/race_report.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/leaf_race/race_story.h"
#include "sim/release_selection.h"

namespace zero3::sim {
namespace {

std::string plural(size_t count, std::string_view word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

size_t failures(const RaceReport& report) {
  return static_cast<size_t>(
      std::ranges::count_if(report.interleavings.outcomes,
                            [](const RaceOutcome& outcome) { return outcome.end.failure.has_value(); }));
}

std::string headline(const RaceReport& report) {
  const size_t kinds = failures(report);
  std::string how = report.fails() ? "no exception, but other harm" : "no interleaving fails";
  if (report.told) how = report.fails() ? "this order fails" : "this order does not fail";
  if (kinds > 0 && !report.told) how = plural(kinds, "way") + " to fail";
  return fmt::format("{} on DeepSpeed {}, {}: {} ({})\n", report.name, fold(report.releases),
                     plural(static_cast<size_t>(report.leaf.ranks), "rank"), how,
                     report.fails() ? "not as expected" : "as expected");
}

std::string leaf_line(const RacingLeaf& leaf) {
  std::vector<std::string> names;
  for (int i = 0; i < leaf.setup.params; ++i) names.push_back(leaf.local_name(i));
  std::string line =
      fmt::format("  leaf:     {} ({}, module {}) returns {}; {} run its pre-backward hook\n", leaf.name,
                  leaf.type, leaf.ds_id, plural(static_cast<size_t>(leaf.outputs), "tensor"),
                  plural(static_cast<size_t>(leaf.setup.threads), "thread"));
  return line + fmt::format("  params:   {} of {} that are partitioned{}: {}\n", names.size(),
                            leaf.partitioned, leaf.setup.prefetched ? ", in flight by a prefetch" : "",
                            names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
}

// "1 or 2", of bits.
std::string gathers_text(uint8_t seen) {
  std::vector<int> counts;
  for (int i = 0; i <= kMaxRaceThreads; ++i) {
    if ((seen >> static_cast<unsigned>(i) & 1U) != 0) counts.push_back(i);
  }
  return fmt::format("{}", fmt::join(counts, " or "));
}

std::string failure_lines(const RaceReport& report, const RaceOutcome& outcome, const RaceStory& story) {
  const RaceStep& last = story.steps.back();
  std::string text =
      fmt::format("    {}: {}\n", report.leaf.exception(last), report.leaf.text(last, story.state));
  for (size_t at = 0; (at = text.find('\n', at)) + 1 < text.size(); at += 5) text.replace(at, 1, "\n    ");
  text += fmt::format("    raised in thread {}; gathered by then: {} time{}", last.thread + 1,
                      gathers_text(outcome.gathers_seen), outcome.gathers_seen == 2 ? "" : "s");
  const std::vector<std::string> statuses = statuses_of(outcome.statuses_seen);
  if (statuses.size() > 1) text += fmt::format("; the text can show {}", fmt::join(statuses, " or "));
  return text + "\n";
}

std::string outcome_text(const RaceReport& report, const RaceOutcome& outcome) {
  const RaceStory story = tell(FetchThreads(report.leaf.setup), outcome.shortest);
  std::string text = "  " + outcome.end.name();
  if (!report.told) {
    text += fmt::format(": {} interleavings ({:.3g} %), the shortest has {} steps",
                        outcome.interleavings.short_text(),
                        100 * outcome.interleavings.share_of(report.interleavings.total), story.steps.size());
  }
  text += "\n";
  if (outcome.end.failure) text += failure_lines(report, outcome, story);
  if (const std::string said = meaning(outcome.end); !said.empty()) text += "    " + said + "\n";
  if (outcome.end.completes() && !report.told) return text;
  size_t number = 0;
  for (const std::string& line : story_lines(report.leaf, story))
    text += fmt::format("    {:>2}. {}\n", ++number, line);
  return text;
}

std::string report_text(const RaceReport& report) {
  std::string text = headline(report) + leaf_line(report.leaf);
  if (!report.told) {
    text += fmt::format("  explored: {} interleavings, in {} states{}\n",
                        report.interleavings.total.short_text(), report.interleavings.states,
                        report.leaf.setup.fetch_lock ? "; one thread fetches, others wait for it" : "");
  }
  for (const RaceOutcome& outcome : report.interleavings.outcomes) text += outcome_text(report, outcome);
  return text + "  reproduce: " + report.reproduce + "\n";
}

}  // namespace

bool RaceReport::fails() const {
  return std::ranges::any_of(interleavings.outcomes, [this](const RaceOutcome& outcome) {
    RaceEnd end = outcome.end;
    if (leaf.ranks == 1) end.gathered_twice = end.taken_back = false;
    return end.harmful();
  });
}

std::string meaning(const RaceEnd& end) {
  if (end.failure) return "";
  std::vector<std::string> parts;
  if (end.stuck) parts.emplace_back("a thread waits for ever");
  if (end.gathered_twice)
    parts.emplace_back("several gathers where other ranks may launch one: their collectives no longer match");
  if (end.taken_back)
    parts.emplace_back("a param is gathered again while the thread that has fetched it computes with it");
  if (end.left_registered) parts.emplace_back("a param stays registered as in flight");
  if (end.left_in_flight) parts.emplace_back("a param is not AVAILABLE in the end");
  if (end.uncounted) {
    parts.emplace_back(
        "a thread returns without raising the step id: a complete trace is invalidated at the next module, "
        "one "
        "that is recorded raises a tracing error in the next iteration");
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string text_report(const RaceReports& reports) {
  std::string text;
  if (!reports.without_leaf_modules.empty())
    text = "DeepSpeed " + fold(reports.without_leaf_modules) + ": no leaf modules\n";
  for (const RaceReport& report : reports.reports) text += (text.empty() ? "" : "\n") + report_text(report);
  return text;
}

}  // namespace zero3::sim
