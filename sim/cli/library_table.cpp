#include "sim/cli/library_table.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "coordinator/behaviour.h"
#include "sim/cli/common.h"
#include "sim/release_selection.h"
#include "sim/simulate.h"

namespace zero3::sim::cli {
namespace {

// Keeps what a rank shows; adds its silent faults when its run is over.
class ShownWatcher final : public RankWatcher {
 public:
  // `shown` must outlive the watcher.
  ShownWatcher(Shown& shown, int rank, const Settings& settings, const Behaviour& behaviour)
      : shown_(shown), rank_(rank), audit_(settings, behaviour) {}
  ShownWatcher(const ShownWatcher&) = delete;
  ShownWatcher& operator=(const ShownWatcher&) = delete;
  ~ShownWatcher() override {
    for (SilentFault& fault : audit_.faults()) shown_.silent_faults->push_back(std::move(fault));
  }

  void on_event(const Event& event) override {
    audit_.on_event(event);
    if (event.kind == EventKind::kPrint && rank_ == 0) shown_.printed.emplace_back(event.text);
  }
  void after_statement(const Statement& statement, const Failure* failure,
                       const RankRunner& runner) override {
    audit_.after_statement(statement, failure, runner);
  }

 private:
  Shown& shown_;
  int rank_;
  Audit audit_;
};

bool hangs(const SimulationResult& result) {
  return result.failed() &&
         result.ranks[static_cast<size_t>(result.first_failed_rank)].failure->kind == FailureKind::kHang;
}

void add_difference(LibraryRow& row, const std::string& difference, const Release& release) {
  const auto known =
      std::ranges::find(row.differing, difference, &decltype(row.differing)::value_type::first);
  if (known != row.differing.end()) {
    known->second.push_back(release);
  } else {
    row.differing.push_back({difference, {release}});
  }
}

std::string count_of(size_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

}  // namespace

std::string difference_of(const Expectation& expected, const SimulationResult& result,
                          const std::vector<std::vector<std::string>>& statements, const Shown& shown) {
  std::string found = difference(expected, ending_of(result, statements, shown));
  if (found.empty() && !expected.failure && !result.corruptions.empty())
    found = "expected completes, got wrong data without an error";
  return found;
}

LibraryRow judged(const Scenario& scenario, const std::vector<Release>& releases, int ranks, uint64_t seed) {
  LibraryRow row{.path = scenario.path, .ranks = ranks, .seed = seed};
  const Experiment experiment = scenario.experiment(ranks, seed);
  const std::vector<std::vector<std::string>> statements = statement_texts(experiment.rank_programs);
  SimulationResult result;
  Shown shown;
  std::optional<size_t> changes_simulated;  // a release that changed nothing does what the one before it did
  Verdict worst = Verdict::kAsExpected;
  for (const Release& release : releases) {
    const std::optional<Expectation> expected = scenario.expected_for(release);
    if (!expected && !can_run(scenario, experiment, release)) {
      row.lacking.push_back(release);
      continue;
    }
    check_release(scenario, experiment, release);
    if (const size_t changes = changes_until(release).size(); changes != changes_simulated) {
      shown = {.printed = {}, .silent_faults = std::vector<SilentFault>{}};
      const Behaviour behaviour = behaviour_of(release);
      const auto watch = [&](int rank) {
        return std::make_unique<ShownWatcher>(shown, rank, experiment.settings, behaviour);
      };
      result = simulate(experiment, {.release = release, .set_order_seed = seed, .watch = watch});
      changes_simulated = changes;
    }
    const std::string difference = expected ? difference_of(*expected, result, statements, shown) : "";
    if (hangs(result) && (!expected || !difference.empty())) worst = worse(worst, Verdict::kHang);
    if (!difference.empty()) {
      add_difference(row, difference, release);
      if (!hangs(result)) worst = worse(worst, Verdict::kNotAsExpected);
    } else if (expected) {
      row.as_expected.push_back(release);
    } else if (hangs(result)) {
      add_difference(row, "hangs, and nothing is expected", release);
    } else {
      row.unsaid.push_back(release);
    }
  }
  row.verdict = row.as_expected.empty() ? worse(worst, Verdict::kInconclusive) : worst;
  return row;
}

std::string library_table(const std::vector<LibraryRow>& rows, const std::vector<Release>& releases) {
  size_t width = std::string_view("scenario").size();
  size_t good = 0;
  for (const LibraryRow& row : rows) {
    width = std::max(width, row.path.size());
    good += row.verdict == Verdict::kAsExpected ? 1 : 0;
  }
  std::string text =
      fmt::format("{:<{}}  as expected  differ  nothing expected  cannot run\n", "scenario", width);
  for (const LibraryRow& row : rows) {
    size_t differ = 0;
    for (const auto& [difference, where] : row.differing) differ += where.size();
    text += fmt::format("{:<{}}  {:>11}  {:>6}  {:>16}  {:>10}\n", row.path, width, row.as_expected.size(),
                        differ, row.unsaid.size(), row.lacking.size());
    for (const auto& [difference, where] : row.differing) {
      text += fmt::format("  {}: {}\n    reproduce: zero3sim run {} --deepspeed {} --ranks {} --seed {}\n",
                          fold(where), difference, shell_word(row.path), where.front().text(), row.ranks,
                          row.seed);
    }
  }
  text +=
      fmt::format("{} on {}: {} as expected", count_of(rows.size(), "scenario"),
                  count_of(releases.size(), "release"), good == rows.size() ? "all" : std::to_string(good));
  return text + "\n";
}

}  // namespace zero3::sim::cli
