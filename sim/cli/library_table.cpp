#include "sim/cli/library_table.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "coordinator/behaviour.h"
#include "sim/cli/common.h"
#include "sim/release_selection.h"

namespace zero3::sim::cli {
namespace {

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

std::string difference_of(const Expectation& expected, const Outcome& outcome) {
  std::string found = difference(expected, ending_of(outcome));
  if (found.empty() && !expected.failure && !outcome.wrong_data.empty())
    found = "expected completes, got wrong data without an error";
  return found;
}

LibraryRow judged(const Scenario& scenario, const std::vector<Release>& releases, int ranks, uint64_t seed,
                  const Outcomes& outcomes) {
  LibraryRow row{.path = scenario.path, .ranks = ranks, .seed = seed};
  const Experiment experiment = scenario.experiment(ranks, seed);
  Outcome outcome;
  std::optional<size_t> changes_simulated;  // a release that changed nothing does what the one before it did
  Verdict worst = Verdict::kAsExpected;
  for (const Release& release : releases) {
    const std::optional<Expectation> expected = scenario.expected_for(release, ranks);
    if (!expected && !can_run(scenario, experiment, release)) {
      row.lacking.push_back(release);
      continue;
    }
    check_release(scenario, experiment, release);
    if (const size_t changes = changes_until(release).size(); changes != changes_simulated) {
      outcome = outcomes(experiment, release, seed);
      changes_simulated = changes;
    }
    const std::string difference = expected ? difference_of(*expected, outcome) : "";
    const bool hangs = outcome.end == End::kHangs;
    if (hangs && (!expected || !difference.empty())) worst = worse(worst, Verdict::kHang);
    if (!difference.empty()) {
      add_difference(row, difference, release);
      if (!hangs) worst = worse(worst, Verdict::kNotAsExpected);
    } else if (expected) {
      row.as_expected.push_back(release);
    } else if (hangs) {
      add_difference(row, "hangs, and nothing is expected", release);
    } else {
      row.unsaid.push_back(release);
    }
  }
  row.verdict = row.as_expected.empty() ? worse(worst, Verdict::kInconclusive) : worst;
  return row;
}

std::string library_table(const std::vector<LibraryRow>& rows, const std::vector<Release>& releases,
                          const Backend& backend) {
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
      text +=
          fmt::format("  {}: {}\n    reproduce: {}zero3sim run {} --deepspeed {} --ranks {} --seed {}{}\n",
                      fold(where), difference, backend.launcher(row.ranks), shell_word(row.path),
                      where.front().text(), row.ranks, row.seed, backend.options());
    }
  }
  text +=
      fmt::format("{} on {}: {} as expected", count_of(rows.size(), "scenario"),
                  count_of(releases.size(), "release"), good == rows.size() ? "all" : std::to_string(good));
  return text + "\n";
}

}  // namespace zero3::sim::cli
