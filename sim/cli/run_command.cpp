// zero3sim run: scenario files on models of releases.
#include <fmt/format.h>

#include "sim/bad_input.h"
#include "sim/cli/commands.h"
#include "sim/cli/common.h"
#include "sim/report/run_report.h"
#include "sim/report/trace_file.h"
#include "sim/scenario/scenario.h"

namespace zero3::sim::cli {
namespace {

Ending ending_of(const RunReport& report) {
  Ending ending;
  const RankFailure* failure = report.failure();
  if (failure == nullptr) return ending;
  ending.failure = failure->kind;
  ending.text = failure->exception + ": " + failure->text;
  ending.rank = report.result.first_failed_rank;
  ending.statement = failure->statement;
  ending.statement_text = report.statements[static_cast<size_t>(ending.rank)][failure->statement];
  for (const RankFailure::NamedParam& param : failure->params)
    ending.params.push_back({param.name, param.status});
  return ending;
}

void judge(RunReport& report, const Scenario& scenario) {
  const std::optional<Expectation> expected = scenario.expected_for(report.release);
  const bool hangs = report.failure() != nullptr && report.failure()->kind == FailureKind::kHang;
  if (!expected) {
    report.verdict = hangs ? Verdict::kHang : Verdict::kInconclusive;
    return;
  }
  report.expected = expected->failure ? std::string(name(*expected->failure)) : "to complete";
  report.difference = difference(*expected, ending_of(report));
  report.verdict = report.difference.empty() ? Verdict::kAsExpected
                   : hangs                   ? Verdict::kHang
                                             : Verdict::kNotAsExpected;
}

RunReport run_one(const Scenario& scenario, const Release& release, const RunArguments& arguments) {
  const int ranks = arguments.ranks > 0 ? arguments.ranks : scenario.ranks;
  const uint64_t seed = arguments.seed_given ? arguments.seed : scenario.seed;
  RunRequest request{scenario.name, scenario.title, release, seed, ""};
  request.reproduce = fmt::format("zero3sim run {} --deepspeed {} --ranks {} --seed {}",
                                  shell_word(scenario.path), release.text(), ranks, seed);
  const Experiment experiment = scenario.experiment(ranks, seed);
  check_release(scenario, experiment, release);
  RunReport report = make_report(experiment, request);
  judge(report, scenario);
  return report;
}

}  // namespace

Verdict run_scenarios(const RunArguments& arguments) {
  const std::vector<Release> releases = chosen_releases(arguments.deepspeed);
  std::vector<RunReport> reports;
  for (const std::string& file : scenario_files(arguments.paths)) {
    const Scenario scenario = load_scenario(file);
    for (const Release& release : releases) reports.push_back(run_one(scenario, release, arguments));
  }
  if (!arguments.trace.empty()) {
    if (reports.size() != 1)
      throw BadInput("--trace takes one scenario on one release", "name one file and one --deepspeed");
    write_trace(reports.front(), arguments.trace);
  }
  print(formatted(reports, arguments.format));
  return overall(reports);
}

}  // namespace zero3::sim::cli
