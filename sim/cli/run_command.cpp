// zero3sim run: scenario files on models of releases.
#include <fmt/format.h>

#include "sim/bad_input.h"
#include "sim/cli/commands.h"
#include "sim/cli/common.h"
#include "sim/cli/library_table.h"
#include "sim/release_selection.h"
#include "sim/report/run_report.h"
#include "sim/report/trace_file.h"
#include "sim/scenario/scenario.h"

namespace zero3::sim::cli {
namespace {

Outcome outcome_in(const RunReport& report, const Experiment& experiment) {
  Outcome outcome = end_of(experiment, report.result);
  for (const RecordedEvent& event : report.recording_of(0).events)
    if (event.kind == EventKind::kPrint) outcome.printed.push_back(event.text);
  outcome.audits = report.audits;
  return outcome;
}

void judge(RunReport& report, const Scenario& scenario, const Experiment& experiment) {
  const std::optional<Expectation> expected = scenario.expected_for(report.release, report.ranks);
  const bool hangs = report.failure() != nullptr && report.failure()->kind == FailureKind::kHang;
  if (!expected) {
    report.verdict = hangs ? Verdict::kHang : Verdict::kInconclusive;
    return;
  }
  report.expected = expected->failure ? std::string(name(*expected->failure)) : "to complete";
  report.difference = difference_of(*expected, outcome_in(report, experiment));
  report.verdict = report.difference.empty() ? Verdict::kAsExpected
                   : hangs                   ? Verdict::kHang
                                             : Verdict::kNotAsExpected;
}

// One scenario on the releases asked for. Where several are asked for, one that has not all the scenario uses is passed
// over and named.
class ScenarioRuns {
 public:
  ScenarioRuns(const Scenario& scenario, const RunArguments& arguments)
      : scenario_(scenario),
        ranks_(arguments.ranks > 0 ? arguments.ranks : scenario.ranks),
        seed_(arguments.seed_given ? arguments.seed : scenario.seed),
        experiment_(scenario.experiment(ranks_, seed_)),
        sweep_(sweep_releases(experiment_, seed_)) {}

  RunReport run(const Release& release) const {
    check_release(scenario_, experiment_, release);
    const std::string title = scenario_.title == scenario_.name ? "" : scenario_.title;
    RunReport report =
        make_report(experiment_, {scenario_.name, title, release, seed_, reproduce(release)}, sweep_);
    judge(report, scenario_, experiment_);
    return report;
  }

  bool can_run(const Release& release) const { return sim::can_run(scenario_, experiment_, release); }

 private:
  std::string reproduce(const Release& release) const {
    return fmt::format("zero3sim run {} --deepspeed {} --ranks {} --seed {}", shell_word(scenario_.path),
                       release.text(), ranks_, seed_);
  }

  const Scenario& scenario_;
  int ranks_;
  uint64_t seed_;
  Experiment experiment_;
  ReleaseSweep sweep_;
};

// A line for each of many.
Verdict run_library(const std::vector<std::string>& files, const std::vector<Release>& releases,
                    const RunArguments& arguments) {
  std::vector<LibraryRow> rows;
  Verdict verdict = Verdict::kAsExpected;
  for (const std::string& file : files) {
    const Scenario scenario = load_scenario(file);
    rows.push_back(judged(scenario, releases, arguments.ranks > 0 ? arguments.ranks : scenario.ranks,
                          arguments.seed_given ? arguments.seed : scenario.seed));
    verdict = worse(verdict, rows.back().verdict);
  }
  print(library_table(rows, releases));
  return verdict;
}

}  // namespace

Verdict run_scenarios(const RunArguments& arguments) {
  const std::vector<Release> releases = chosen_releases(arguments.deepspeed);
  const std::vector<std::string> files = scenario_files(arguments.paths);
  const bool one_report = files.size() == 1 && releases.size() == 1;
  if (!arguments.trace.empty() && !one_report)
    throw BadInput("--trace takes one scenario on one release", "name one file and one --deepspeed");
  const bool folder = files != arguments.paths;
  if ((folder || files.size() > 1) && arguments.format == Format::kText)
    return run_library(files, releases, arguments);
  std::vector<RunReport> reports;
  std::string passed_over;
  for (const std::string& file : files) {
    const Scenario scenario = load_scenario(file);
    const ScenarioRuns runs(scenario, arguments);
    std::vector<Release> lacking;
    for (const Release& release : releases) {
      if (releases.size() > 1 && !runs.can_run(release)) {
        lacking.push_back(release);
      } else {
        reports.push_back(runs.run(release));
      }
    }
    if (!lacking.empty()) passed_over += fmt::format("\n{} cannot run on {}\n", scenario.name, fold(lacking));
  }
  if (!arguments.trace.empty()) write_trace(reports.front(), arguments.trace);
  print(formatted(reports, arguments.format) + (arguments.format == Format::kText ? passed_over : ""));
  return overall(reports);
}

}  // namespace zero3::sim::cli
