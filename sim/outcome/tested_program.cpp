#include "sim/outcome/tested_program.h"

#include <utility>

#include <fmt/format.h>

#include "sim/bad_input.h"
#include "sim/run_file/run_file.h"
#include "sim/scenario/yaml_reader.h"
#include "sim/shell_word.h"

namespace zero3::sim {
namespace {

bool expects_missing_method(const TestedProgram& program, const Release& release) {
  if (program.scenario == nullptr) return false;
  const std::optional<Expectation> expected = program.scenario->expected_for(release, program.ranks());
  return expected && expected->failure == FailureKind::kMissingMethod;
}

void add_runs(const std::string& file, const std::string& text, int ranks, std::optional<uint64_t> seed,
              std::vector<TestedProgram>& programs) {
  for (RecordedRun& run : read_runs(text, file)) {
    TestedProgram program{.name = run.name,
                          .title = "",
                          .path = file,
                          .experiment = std::move(run.experiment),
                          .seed = seed.value_or(run.seed),
                          .recorded = run.recorded.has_value(),
                          .partial = run.partial,
                          .scenario = nullptr};
    if (ranks != 0 && ranks != program.ranks())
      throw BadInput(fmt::format("--ranks {}: the run file {} is of {}", ranks, file, program.ranks()),
                     "leave --ranks out");
    programs.push_back(std::move(program));
  }
}

void add_scenario(const std::string& file, const std::string& text, int ranks, std::optional<uint64_t> seed,
                  std::vector<TestedProgram>& programs) {
  auto scenario = std::make_shared<const Scenario>(parse_scenario(file, text));
  const uint64_t chosen_seed = seed.value_or(scenario->seed);
  programs.push_back({.name = scenario->name,
                      .title = scenario->title,
                      .path = file,
                      .experiment = scenario->experiment(ranks > 0 ? ranks : scenario->ranks, chosen_seed),
                      .seed = chosen_seed,
                      .scenario = scenario});
}

}  // namespace

Outcome TestedProgram::outcome_on(const Release& release) const {
  return outcome_of(experiment, release,
                    {.seed = seed, .runs_what_lacks = expects_missing_method(*this, release)});
}

std::vector<ReleaseOutcome> TestedProgram::outcomes_on(std::span<const Release> releases) const {
  std::vector<ReleaseOutcome> outcomes = sim::outcomes_on(experiment, releases, {.seed = seed});
  for (ReleaseOutcome& one : outcomes) {
    if (one.outcome.end == End::kLacking && expects_missing_method(*this, one.release))
      one.outcome = outcome_on(one.release);
  }
  return outcomes;
}

std::string TestedProgram::reproduce(const Release& release) const {
  if (scenario == nullptr)
    return fmt::format("zero3sim replay {} --deepspeed {}", shell_word(path), release.text());
  return fmt::format("zero3sim run {} --deepspeed {} --ranks {} --seed {}", shell_word(path), release.text(),
                     ranks(), seed);
}

std::vector<TestedProgram> load_programs(const std::vector<std::string>& files, int ranks,
                                         std::optional<uint64_t> seed) {
  std::vector<TestedProgram> programs;
  for (const std::string& file : files) {
    const std::string text = read_text_file(file);
    if (looks_like_run_file(text)) {
      add_runs(file, text, ranks, seed, programs);
    } else {
      add_scenario(file, text, ranks, seed, programs);
    }
  }
  return programs;
}

}  // namespace zero3::sim
