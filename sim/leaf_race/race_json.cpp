// The races command's report for programs. Keys are documented in docs/leaf-races.md; adding keys is no new version,
// changing one is.
#include <nlohmann/json.hpp>

#include "sim/leaf_race/race_report.h"
#include "sim/leaf_race/race_story.h"
#include "sim/release_selection.h"
#include "sim/verdict.h"

namespace zero3::sim {
namespace {

using nlohmann::ordered_json;

constexpr int kRaceVersion = 1;

ordered_json steps_json(const RacingLeaf& leaf, const RaceStory& story) {
  ordered_json steps = ordered_json::array();
  for (const RaceStep& step : story.steps) {
    ordered_json item = {{"thread", step.thread + 1}, {"action", name(step.action)}};
    if (step.param >= 0) item["param"] = leaf.params[static_cast<size_t>(step.param)].name;
    if (step.seen) item["status"] = status_word(*step.seen);
    if (step.found) item["found"] = *step.found;
    steps.push_back(std::move(item));
  }
  return steps;
}

ordered_json outcome_json(const RaceReport& report, const RaceOutcome& outcome) {
  const RaceStory story = tell(FetchThreads(report.leaf.setup), outcome.shortest);
  ordered_json item = {{"outcome", outcome.end.name()}};
  if (!report.told) {
    item["interleavings"] = outcome.interleavings.text();
    item["share"] = outcome.interleavings.share_of(report.interleavings.total);
  }
  if (outcome.end.failure) {
    const RaceStep& last = story.steps.back();
    item["exception"] = report.leaf.exception(last);
    item["text"] = report.leaf.text(last, story.state);
    item["thread"] = last.thread + 1;
    item["statuses"] = statuses_of(outcome.statuses_seen);
  } else {
    item["meaning"] = meaning(outcome.end);
  }
  item["gathers"] = ordered_json::array();
  for (int i = 0; i <= kMaxRaceThreads; ++i) {
    if ((outcome.gathers_seen >> static_cast<unsigned>(i) & 1U) != 0) item["gathers"].push_back(i);
  }
  item["steps"] = steps_json(report.leaf, story);
  return item;
}

ordered_json report_json(const RaceReport& report) {
  const RacingLeaf& leaf = report.leaf;
  ordered_json params = ordered_json::array();
  for (const Param& param : leaf.params) params.push_back({{"ds_id", param.ds_id}, {"name", param.name}});
  ordered_json outcomes = ordered_json::array();
  for (const RaceOutcome& outcome : report.interleavings.outcomes)
    outcomes.push_back(outcome_json(report, outcome));
  ordered_json item = {
      {"version", kRaceVersion},
      {"name", report.name},
      {"deepspeed", fold(report.releases)},
      {"ranks", leaf.ranks},
      {"verdict", name(report.fails() ? Verdict::kNotAsExpected : Verdict::kAsExpected)},
      {"module", {{"name", leaf.name}, {"type", leaf.type}, {"id", leaf.ds_id}, {"outputs", leaf.outputs}}},
      {"threads", leaf.setup.threads},
      {"fetch_lock", leaf.setup.fetch_lock},
      {"prefetched", leaf.setup.prefetched},
      {"params", params},
      {"partitioned_params", leaf.partitioned}};
  if (!report.told) {
    item["interleavings"] = report.interleavings.total.text();
    item["states"] = report.interleavings.states;
  }
  item["outcomes"] = outcomes;
  item["reproduce"] = report.reproduce;
  return item;
}

}  // namespace

std::string json_report(const RaceReports& reports) {
  ordered_json list = ordered_json::array();
  for (const RaceReport& report : reports.reports) list.push_back(report_json(report));
  return (list.size() == 1 ? list.front() : list).dump(2) + "\n";
}

}  // namespace zero3::sim
