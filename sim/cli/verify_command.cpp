// zero3sim verify: the same program on real DeepSpeed and on its model.
#include <cstdio>
#include <memory>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "sim/bad_input.h"
#include "sim/cli/commands.h"
#include "sim/cli/common.h"
#include "sim/release_features.h"
#include "sim/report/words.h"
#include "sim/run_file/run_file.h"
#include "sim/scenario/scenario.h"
#include "sim/scenario/yaml_reader.h"
#include "sim/verify/trace_text.h"
#include "sim/verify/verify_report.h"
#include "sim/whole_file.h"

namespace zero3::sim::cli {
namespace {

// A program to hold against the installed release.
struct Candidate {
  std::string name;
  Experiment experiment;
  uint64_t seed = 0;
  std::string reproduce;
  std::shared_ptr<const Scenario> scenario;  // null: none, so that nothing is expected

  int ranks() const { return static_cast<int>(experiment.rank_programs.size()); }
};

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

// What the release lacks for it; "" if nothing.
std::string lacking(const Candidate& candidate, const Release& release) {
  if (candidate.scenario != nullptr && can_run(*candidate.scenario, candidate.experiment, release)) return "";
  const auto missing = first_missing(candidate.experiment, release);
  return missing ? missing->message(release) : "";
}

// The end of a real run: that of the model where both agree, for texts have no kinds; else as far as it is told.
std::string disagreement(const Candidate& candidate, const Verification& done, const Release& release) {
  if (candidate.scenario == nullptr || !done.real.trace.whole || done.real.trace.refused) return "";
  const std::optional<Expectation> expected = candidate.scenario->expected_for(release);
  if (!expected) return "";
  if (done.agrees()) {
    std::vector<std::vector<std::string>> statements;
    for (const Program& program : candidate.experiment.rank_programs) {
      statements.emplace_back();
      for (const Statement& statement : program) statements.back().push_back(statement.text);
    }
    std::vector<std::string> printed;
    for (const TraceStatement& statement : done.real.trace.by_rank.front().statements) {
      for (const TraceEvent& event : statement.events)
        if (event.event == name(EventKind::kPrint)) printed.push_back(event.text);
    }
    return difference(*expected, ending_of(done.model.result, statements, std::move(printed)));
  }
  for (const RankTrace& rank : done.real.trace.by_rank) {
    if (rank.failed() && !expected->failure)
      return "expected completes, real DeepSpeed raised " + text_of(*rank.statements.back().failure);
    if (rank.failed() || rank.stop) return "";
  }
  return difference(*expected, Ending{});
}

class Progress {
 public:
  explicit Progress(size_t total) : total_(total), shown_(isatty(STDERR_FILENO) != 0) {}
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void at(const std::string& what) {
    if (shown_) std::fprintf(stderr, "\r\033[K[%zu/%zu] %s", ++count_, total_, what.c_str());
  }
  void clear() const {
    if (shown_) std::fputs("\r\033[K", stderr);
  }

 private:
  size_t total_;
  size_t count_ = 0;
  bool shown_;
};

VerifiedRun verified(const Candidate& candidate, const ModelledRelease& modelled, ProbeSession& probe) {
  VerifiedRun run{.name = candidate.name,
                  .ranks = candidate.ranks(),
                  .seed = candidate.seed,
                  .reproduce = candidate.reproduce};
  run.skipped = lacking(candidate, modelled.release);
  if (!run.skipped.empty()) return run;
  const Verification done =
      verify(candidate.experiment, candidate.name, candidate.seed, modelled.release, probe);
  run.comparison = done.comparison;
  run.verdict = done.verdict();
  run.expected = disagreement(candidate, done, modelled.release);
  if (run.verdict == Verdict::kAsExpected && !run.expected.empty()) run.verdict = Verdict::kNotAsExpected;
  if (!done.comparison.difference) return run;
  const Difference& difference = *done.comparison.difference;
  for (const Statement& statement : candidate.experiment.rank_programs[static_cast<size_t>(difference.rank)])
    run.statements.push_back(statement.text);
  run.deciding =
      deciding_flags(candidate.experiment, modelled.release, candidate.seed, done.real.trace, difference);
  return run;
}

size_t columns() {
  constexpr size_t kUsual = 100;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsual;
  return size.ws_col;
}

}  // namespace

Verdict verify_programs(const VerifyArguments& arguments) {
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
      progress.at(fmt::format("{}, {} ranks", candidate.name, candidate.ranks()));
      report.runs.push_back(verified(candidate, *modelled, probe));
    }
    progress.clear();
    if (!arguments.junit.empty()) write_whole_file(arguments.junit, junit_report(report), "JUnit file");
    print(arguments.format == Format::kJson ? json_report(report) : text_report(report, columns()));
    return report.verdict();
  } catch (const ProbeUnavailable& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return Verdict::kBackendUnavailable;
  }
}

}  // namespace zero3::sim::cli
