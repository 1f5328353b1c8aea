// zero3sim run: scenario files on models of releases.
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "sim/backend_unavailable.h"
#include "sim/backends/backend.h"
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

int ranks_of(const Scenario& scenario, const RunArguments& arguments, const Backend& backend) {
  if (arguments.ranks > 0) return arguments.ranks;
  return backend.job_ranks() > 0 ? backend.job_ranks() : scenario.ranks;
}

void judge(RunReport& report, const Scenario& scenario, const Outcome& outcome) {
  const std::optional<Expectation> expected = scenario.expected_for(report.release, report.ranks);
  const bool hangs = report.failure() != nullptr && report.failure()->kind == FailureKind::kHang;
  if (!expected) {
    report.verdict = hangs ? Verdict::kHang : Verdict::kInconclusive;
    return;
  }
  report.expected = expected->failure ? std::string(name(*expected->failure)) : "to complete";
  report.difference = difference_of(*expected, outcome);
  report.verdict = report.difference.empty() ? Verdict::kAsExpected
                   : hangs                   ? Verdict::kHang
                                             : Verdict::kNotAsExpected;
}

// One scenario on the releases asked for. Where several are asked for, one that has not all the scenario uses is passed
// over and named.
class ScenarioRuns {
 public:
  ScenarioRuns(const Scenario& scenario, const RunArguments& arguments, Backend& backend)
      : scenario_(scenario),
        backend_(backend),
        ranks_(ranks_of(scenario, arguments, backend)),
        seed_(arguments.seed_given ? arguments.seed : scenario.seed),
        experiment_(scenario.experiment(ranks_, seed_)) {
    if (backend.reports()) sweep_ = sweep_releases(experiment_, seed_);
  }

  // None in a process that does not report.
  std::optional<RunReport> run(const Release& release) const {
    check_release(scenario_, experiment_, release);
    std::optional<WatchedRun> watched = backend_.run(experiment_, release, seed_);
    if (!watched) return std::nullopt;
    const std::string title = scenario_.title == scenario_.name ? "" : scenario_.title;
    const Outcome outcome = outcome_in(experiment_, *watched);
    RunReport report = make_report(experiment_, {scenario_.name, title, release, seed_, reproduce(release)},
                                   sweep_, std::move(*watched));
    judge(report, scenario_, outcome);
    return report;
  }

  bool can_run(const Release& release) const { return sim::can_run(scenario_, experiment_, release); }

 private:
  std::string reproduce(const Release& release) const {
    return fmt::format("{}zero3sim run {} --deepspeed {} --ranks {} --seed {}{}", backend_.launcher(ranks_),
                       shell_word(scenario_.path), release.text(), ranks_, seed_, backend_.options());
  }

  const Scenario& scenario_;
  Backend& backend_;
  int ranks_;
  uint64_t seed_;
  Experiment experiment_;
  ReleaseSweep sweep_;
};

// A line for each of many.
Verdict run_library(const std::vector<std::string>& files, const std::vector<Release>& releases,
                    const RunArguments& arguments, Backend& backend) {
  const Outcomes outcomes = [&backend](const Experiment& experiment, const Release& release, uint64_t seed) {
    return backend.outcome(experiment, release, seed);
  };
  std::vector<LibraryRow> rows;
  Verdict verdict = Verdict::kAsExpected;
  for (const std::string& file : files) {
    const Scenario scenario = load_scenario(file);
    const uint64_t seed = arguments.seed_given ? arguments.seed : scenario.seed;
    try {
      rows.push_back(judged(scenario, releases, ranks_of(scenario, arguments, backend), seed, outcomes));
    } catch (const BackendUnavailable& error) {
      print(library_table(rows, releases, backend));
      throw BackendUnavailable(fmt::format("{}: {}", file, error.what()));
    }
    verdict = worse(verdict, rows.back().verdict);
  }
  if (backend.reports()) print(library_table(rows, releases, backend));
  return verdict;
}

Verdict run_on(const RunArguments& arguments, Backend& backend) {
  const std::vector<Release> releases = chosen_releases(arguments.deepspeed);
  const std::vector<std::string> files = scenario_files(arguments.paths);
  const bool one_report = files.size() == 1 && releases.size() == 1;
  if (!arguments.trace.empty() && !one_report && !std::filesystem::is_directory(arguments.trace)) {
    throw BadInput("--trace takes one file for one scenario on one release",
                   "name one file and one --deepspeed, or a folder that is there for the traces of all");
  }
  const bool is_library = files != arguments.paths || files.size() > 1;
  if (is_library && arguments.format == Format::kText && arguments.trace.empty())
    return run_library(files, releases, arguments, backend);
  std::vector<RunReport> reports;
  std::string passed_over;
  for (const std::string& file : files) {
    const Scenario scenario = load_scenario(file);
    const ScenarioRuns runs(scenario, arguments, backend);
    std::vector<Release> lacking;
    for (const Release& release : releases) {
      if (releases.size() > 1 && !runs.can_run(release)) {
        lacking.push_back(release);
      } else if (std::optional<RunReport> report = runs.run(release)) {
        reports.push_back(std::move(*report));
      }
    }
    if (!lacking.empty()) passed_over += fmt::format("\n{} cannot run on {}\n", scenario.name, fold(lacking));
  }
  if (!backend.reports()) return Verdict::kAsExpected;
  if (!arguments.trace.empty()) write_traces(reports, arguments.trace);
  print(formatted(reports, arguments.format) + (arguments.format == Format::kText ? passed_over : ""));
  return overall(reports);
}

}  // namespace

Verdict run_scenarios(const RunArguments& arguments) {
  const std::unique_ptr<Backend> backend = open_backend(arguments.backend);
  return backend->together([&] { return run_on(arguments, *backend); });
}

}  // namespace zero3::sim::cli
