// zero3sim run: scenario files on models of releases.
#include <memory>

#include <fmt/format.h>

#include "sim/bad_input.h"
#include "sim/cli/commands.h"
#include "sim/cli/common.h"
#include "sim/report/run_report.h"
#include "sim/report/trace_file.h"
#include "sim/scenario.h"

namespace zero3::sim::cli {
namespace {

struct RunArguments {
  std::vector<std::string> files;
  std::string deepspeed;
  int ranks = 0;  // 0: the scenario's own
  uint64_t seed = 0;
  bool seed_given = false;
  Format format = Format::kText;
  std::string trace;
};

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
  check_release(scenario, release);
  const int ranks = arguments.ranks > 0 ? arguments.ranks : scenario.ranks;
  const uint64_t seed = arguments.seed_given ? arguments.seed : scenario.seed;
  RunRequest request{scenario.name, scenario.title, release, seed, ""};
  request.reproduce = fmt::format("zero3sim run {} --deepspeed {} --ranks {} --seed {}",
                                  shell_word(scenario.path), release.text(), ranks, seed);
  RunReport report = make_report(scenario.experiment(ranks, seed), request);
  judge(report, scenario);
  return report;
}

Verdict run(const RunArguments& arguments) {
  const std::vector<Release> releases = chosen_releases(arguments.deepspeed);
  std::vector<RunReport> reports;
  for (const std::string& file : scenario_files(arguments.files)) {
    const Scenario scenario = load_scenario(file);
    for (const Release& release : releases) reports.push_back(run_one(scenario, release, arguments));
  }
  if (!arguments.trace.empty()) {
    if (reports.size() != 1)
      throw BadInput("--trace takes one scenario on one release", "name one file and one --deepspeed");
    write_trace(reports.front(), arguments.trace);
  }
  Verdict verdict = Verdict::kAsExpected;
  std::string text;
  for (const RunReport& report : reports) {
    verdict = worse(verdict, report.verdict);
    if (arguments.format == Format::kText) text += (text.empty() ? "" : "\n") + text_report(report);
  }
  if (arguments.format == Format::kJson)
    text = reports.size() == 1 ? json_report(reports.front()) : json_report(reports);
  print(text);
  return verdict;
}

}  // namespace

void add_run_command(CLI::App& app, Verdict& verdict) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App* command = app.add_subcommand("run", "Run scenario files on the models of DeepSpeed releases");
  command->add_option("files", arguments->files, "Scenario files, or folders of them")->required();
  command->add_option("--deepspeed", arguments->deepspeed,
                      "Releases: 0.15.2, '0.6.0 - 0.15.2', '>= 0.15.3', all (default: the newest)");
  command->add_option("--ranks", arguments->ranks, "World size (default: the scenario's)")
      ->check(CLI::Range(1, kMaxRanks));
  CLI::Option* seed = command->add_option(
      "--seed", arguments->seed, "Seed of the program's choices and of hash order (default: the scenario's)");
  command->add_option("--format", arguments->format, "text or json")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, Format>{{"text", Format::kText}, {"json", Format::kJson}}));
  command->add_option("--trace", arguments->trace, "Write every event to this file (docs/trace-format.md)");
  command->callback([arguments, seed, &verdict] {
    arguments->seed_given = seed->count() > 0;
    verdict = run(*arguments);
  });
}

}  // namespace zero3::sim::cli
