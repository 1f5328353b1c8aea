// zero3sim regress: today's outcomes against a stored baseline.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "sim/bad_input.h"
#include "sim/cli/commands.h"
#include "sim/cli/common.h"
#include "sim/cli/terminal.h"
#include "sim/regress/regression.h"
#include "sim/release_selection.h"
#include "sim/run_file/run_file.h"
#include "sim/scenario/yaml_reader.h"
#include "sim/verify/verification.h"
#include "sim/whole_file.h"

namespace zero3::sim::cli {
namespace {

// "" if it is not: who loads it says so.
std::string text_if_readable(const std::string& path) {
  try {
    return read_text_file(path);
  } catch (const BadInput&) {
    return "";
  }
}

void write_baseline(const Baseline& baseline, const std::string& path) {
  write_whole_file(path, baseline_text(baseline), "baseline");
}

Verdict write_new(const RegressArguments& arguments) {
  if (arguments.programs.paths.empty())
    throw BadInput("nothing to write", "name scenario or run files, or folders of them");
  const std::vector<Release> releases = chosen_releases(arguments.deepspeed);
  const LoadedPrograms loaded = load(arguments.programs);
  if (loaded.any_refused) return Verdict::kBadInput;  // a baseline of the rest alone would hide it
  const Baseline baseline = baseline_of(loaded.programs, releases);
  write_baseline(baseline, arguments.baseline);
  print(fmt::format("{}: {} programs on {} written\n", arguments.baseline, baseline.programs.size(),
                    fold(releases)));
  return Verdict::kAsExpected;
}

// From another folder none of its paths leads anywhere.
void check_paths(const Baseline& baseline, const std::string& path) {
  const auto is_there = [](const BaselineProgram& program) { return std::filesystem::exists(program.file); };
  if (std::ranges::any_of(baseline.programs, is_there)) return;
  throw BadInput(
      fmt::format("{}: none of its programs is here, {} for one", path, baseline.programs.front().file),
      "its paths start where it was written: run zero3sim there, or name the programs");
}

// The baseline's own programs, each with the ranks and seed that it was written with.
LoadedPrograms load_known(const Baseline& baseline) {
  std::vector<ProgramArguments> asked;
  std::set<std::string> runs;  // files that hold their own
  std::set<std::tuple<std::string, int, uint64_t>> scenarios;
  for (const BaselineProgram& program : baseline.programs) {
    if (looks_like_run_file(text_if_readable(program.file))) {
      if (runs.insert(program.file).second) asked.push_back({.paths = {program.file}});
    } else if (scenarios.emplace(program.file, program.ranks, program.seed).second) {
      asked.push_back({.paths = {program.file}, .ranks = program.ranks, .seed = program.seed});
    }
  }
  return load(asked);
}

std::vector<Release> compared_releases(const RegressArguments& arguments, const Baseline& baseline,
                                       const std::optional<ModelledRelease>& installed) {
  std::vector<Release> releases =
      arguments.deepspeed.empty() ? baseline.releases() : chosen_releases(arguments.deepspeed);
  if (installed) releases.push_back(installed->release);
  std::ranges::sort(releases);
  releases.erase(std::unique(releases.begin(), releases.end()), releases.end());
  return releases;
}

// "differs at step 3 (t:AC) on rank 0: failure"
std::string difference_text(const Difference& difference, const TestedProgram& program) {
  const Program& steps = program.experiment.rank_programs[static_cast<size_t>(difference.rank)];
  const std::string statement =
      difference.statement < steps.size() ? steps[difference.statement].text : std::string("end");
  return fmt::format("differs at step {} ({}) on rank {}: {}", difference.statement + 1, statement,
                     difference.rank, difference.what);
}

// Every program on the installed release, against its model.
void hold_installed(const std::vector<TestedProgram>& programs, const Release& release, ProbeSession& probe,
                    const std::string& python, const Baseline& baseline, RegressionReport& report) {
  Progress progress(programs.size());
  for (const TestedProgram& program : programs) {
    progress.at(program.name);
    if (program.outcome_on(release).end == End::kLacking) continue;
    if (program.recorded) {
      report.not_run.push_back(program.name);
      continue;
    }
    const Verification done = verify(program.experiment, program.name, program.seed, release, probe);
    if (done.comparison.outcome == Comparison::Outcome::kInconclusive)
      report.undecided.push_back(
          fmt::format("{}: real DeepSpeed tells nothing: {}", program.name, done.comparison.text));
    if (!done.comparison.difference) continue;
    const std::string ranks = program.scenario == nullptr ? "" : fmt::format(" --ranks {}", program.ranks());
    add(report, baseline,
        {.program = program.name,
         .ranks = program.ranks(),
         .releases = {release},
         .against = {},
         .change = {"installed", "as its model", difference_text(*done.comparison.difference, program)},
         .reproduce = fmt::format("zero3sim verify {} --python {}{} --seed {}", shell_word(program.path),
                                  shell_word(python), ranks, program.seed)});
  }
}

}  // namespace

Verdict regress(const RegressArguments& arguments) {
  if (arguments.write) return write_new(arguments);
  Baseline baseline = parse_baseline(read_text_file(arguments.baseline), arguments.baseline);
  if (arguments.programs.paths.empty()) check_paths(baseline, arguments.baseline);
  const LoadedPrograms loaded =
      arguments.programs.paths.empty() ? load_known(baseline) : load(arguments.programs);
  std::unique_ptr<ProbeSession> probe;
  std::optional<ModelledRelease> installed;
  if (!arguments.python.empty()) {
    probe = std::make_unique<ProbeSession>(
        ProbeOptions{.python = arguments.python, .timeout_s = arguments.timeout_s});
    installed = model_for(probe->info().deepspeed);
    if (!installed)
      throw ProbeUnavailable("DeepSpeed " + probe->info().deepspeed + " in " + arguments.python +
                             " is no known release");
  }
  RegressionReport report =
      compare(baseline, loaded.programs, compared_releases(arguments, baseline, installed));
  report.baseline = arguments.baseline;
  if (installed) {
    report.installed = probe->info().deepspeed;
    hold_installed(loaded.programs, installed->release, *probe, arguments.python, baseline, report);
  }
  // A program that could not be read is not gone.
  if (arguments.accept && !loaded.any_refused && report.count(false) > 0) {
    accept_all(report, baseline);
    write_baseline(baseline, arguments.baseline);
  }
  const std::string text = arguments.format == TableFormat::kJson    ? json_report(report)
                           : arguments.format == TableFormat::kJunit ? junit_report(report)
                                                                     : text_report(report);
  tell(text, arguments.out, "report");
  return loaded.with_refused(report.verdict());
}

}  // namespace zero3::sim::cli
