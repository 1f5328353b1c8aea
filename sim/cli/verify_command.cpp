// zero3sim verify: the same program on real DeepSpeed and on its model.
#include <cstdio>

#include <fmt/format.h>

#include "sim/bad_input.h"
#include "sim/cli/commands.h"
#include "sim/cli/common.h"
#include "sim/cli/terminal.h"
#include "sim/cli/verify_candidate.h"
#include "sim/run_file/run_file.h"
#include "sim/scenario/yaml_reader.h"

namespace zero3::sim::cli {
namespace {

std::string reproduce(const VerifyArguments& arguments, const std::string& what, int ranks, uint64_t seed) {
  return fmt::format("zero3sim verify {} --python {} --ranks {} --seed {}", what,
                     shell_word(arguments.python), ranks, seed);
}

void add_scenario(const std::string& file, const VerifyArguments& arguments,
                  std::vector<Candidate>& candidates) {
  const auto scenario = std::make_shared<const Scenario>(load_scenario(file));
  const uint64_t seed = arguments.seed_given ? arguments.seed : scenario->seed;
  const std::vector<int> ranks = arguments.ranks.empty() ? std::vector{scenario->ranks} : arguments.ranks;
  for (const int count : ranks) {
    candidates.push_back({scenario->name, scenario->experiment(count, seed), seed,
                          reproduce(arguments, shell_word(file), count, seed), scenario});
  }
}

void add_runs(const std::string& file, const std::string& text, const VerifyArguments& arguments,
              std::vector<Candidate>& candidates) {
  if (!arguments.ranks.empty())
    throw BadInput("--ranks: the run file " + file + " has its own", "leave --ranks out");
  for (RecordedRun& run : read_runs(text, file)) {
    const uint64_t seed = arguments.seed_given ? arguments.seed : run.seed;
    const std::string line = fmt::format("zero3sim verify {} --python {} --seed {}", shell_word(file),
                                         shell_word(arguments.python), seed);
    candidates.push_back({run.name, std::move(run.experiment), seed, line, nullptr});
  }
}

void add_program(const VerifyArguments& arguments, std::vector<Candidate>& candidates) {
  for (const int count : arguments.ranks.empty() ? std::vector{1} : arguments.ranks) {
    TryArguments program = arguments.short_form;
    program.options.ranks = count;
    program.seed = arguments.seed;
    const std::string line = fmt::format("zero3sim verify --program {} --python {}{} --ranks {} --seed {}",
                                         shell_word(program.program), shell_word(arguments.python),
                                         short_form_words(program), count, arguments.seed);
    candidates.push_back({program.program, experiment_of(program), arguments.seed, line, nullptr});
  }
}

std::vector<Candidate> candidates_of(const VerifyArguments& arguments) {
  std::vector<Candidate> candidates;
  if (!arguments.short_form.program.empty()) {
    if (!arguments.paths.empty()) throw BadInput("--program and files", "give one or the other");
    add_program(arguments, candidates);
    return candidates;
  }
  if (arguments.paths.empty())
    throw BadInput("nothing to verify", "give scenario or run files, or --program");
  for (const std::string& file : scenario_files(arguments.paths)) {
    const std::string text = read_text_file(file);
    if (looks_like_run_file(text)) {
      add_runs(file, text, arguments, candidates);
    } else {
      add_scenario(file, arguments, candidates);
    }
  }
  return candidates;
}

}  // namespace

Verdict verify_programs(const VerifyArguments& arguments) {
  if (!arguments.trace.empty()) return verify_trace(arguments);
  if (arguments.python.empty())
    throw BadInput("--python is required", "the interpreter that has DeepSpeed and zero3probe; or --trace");
  const std::vector<Candidate> candidates = candidates_of(arguments);
  try {
    ProbeSession probe({.python = arguments.python, .timeout_s = arguments.timeout_s});
    const std::optional<ModelledRelease> modelled = model_for(probe.info().deepspeed);
    if (!modelled)
      throw ProbeUnavailable("DeepSpeed " + probe.info().deepspeed + " in " + arguments.python +
                             " is no known release");
    VerifyReport report{probe.info(), *modelled, {}};
    Progress progress(candidates.size());
    for (const Candidate& candidate : candidates) {
      const int ranks = candidate.ranks();
      progress.at(fmt::format("{}, {} rank{}", candidate.name, ranks, ranks == 1 ? "" : "s"));
      report.runs.push_back(verified(candidate, *modelled, [&] {
        return verify(candidate.experiment, candidate.name, candidate.seed, modelled->release, probe);
      }));
    }
    progress.clear();
    return tell(report, arguments);
  } catch (const ProbeUnavailable& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return Verdict::kBackendUnavailable;
  }
}

}  // namespace zero3::sim::cli
