// zero3sim fixes: what cures a program, tried.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "coordinator/behaviour.h"
#include "sim/bad_input.h"
#include "sim/cli/commands.h"
#include "sim/cli/common.h"
#include "sim/cli/terminal.h"
#include "sim/fixes/fix_report.h"
#include "sim/fixes/subject.h"
#include "sim/fixes/trial.h"
#include "sim/run_file/run_file.h"
#include "sim/whole_file.h"

namespace zero3::sim::cli {
namespace {

// The newest release that the program is not well on; one on which it is only slower, where there is no other.
// The newest of all, where it is well everywhere.
Release failing_release(const TestedProgram& program) {
  const std::vector<ReleaseOutcome> outcomes = program.outcomes_on(known_releases());
  for (const Consequence least : {Consequence::kMemory, Consequence::kSlower}) {
    for (auto one = outcomes.rbegin(); one != outcomes.rend(); ++one) {
      const Outcome& outcome = one->outcome;
      if (outcome.end == End::kLacking) continue;
      const std::vector<SilentFault> faults = outcome.silent_faults();
      const bool faulty = !faults.empty() && faults.front().consequence >= least;
      if (outcome.end != End::kCompletes || faulty) return one->release;
    }
  }
  return known_releases().back();
}

std::string reproduce(const FixReport& report, const Release& release, const std::string& fix) {
  return fmt::format("zero3sim fixes {} --deepspeed {} --ranks {} --seed {}{}", shell_word(report.path),
                     release.text(), report.ranks, report.seed,
                     fix.empty() ? "" : " --fix " + shell_word(fix));
}

// The changed program, then the counterexample if there is one.
void write_fix(const FixReport& report, const FixResult& result, const std::string& path) {
  if (!result.changed) {
    throw BadInput(fmt::format("--write: {}: {}", result.candidate.id, result.why),
                   "choose a fix that applies");
  }
  if (result.candidate.kind == FixKind::kRelease) {
    throw BadInput(fmt::format("--write: {} changes the release and not the program", result.candidate.id),
                   "zero3sim verify the program as it is, with an interpreter of that release");
  }
  std::string text = write_run(*result.changed, report.name + ": " + result.candidate.id, report.seed);
  if (result.counterexample) {
    const std::string name = fmt::format("{}: {}, {}", report.name, result.candidate.id,
                                         counterexample_text(*result.counterexample));
    text += write_run(result.counterexample->experiment, name, report.seed);
  }
  write_whole_file(path, text, "run file");
}

class Fixes {
 public:
  explicit Fixes(const FixesArguments& arguments) : arguments_(arguments) {}

  Verdict run() {
    const std::optional<uint64_t> seed =
        arguments_.seed_given ? std::optional(arguments_.seed) : std::nullopt;
    const std::vector<TestedProgram> programs =
        load_programs(scenario_files(arguments_.paths), arguments_.ranks, seed);
    Progress progress(programs.size());
    for (const TestedProgram& program : programs) {
      progress.at(program.name);
      try_on(program);
    }
    progress.clear();
    if (!arguments_.fix.empty()) check_fix(programs);
    if (!arguments_.write.empty()) write();
    std::vector<std::string> commands;
    Verdict verdict = Verdict::kAsExpected;
    bool any = false;
    for (const FoldedFixReport& one : reports_) {
      commands.push_back(reproduce(one.report, one.releases.front(), arguments_.fix));
      any = any || !one.report.ailment.empty();
      if (!one.report.ailment.empty()) verdict = worse(verdict, verdict_of(one.report));
    }
    if (arguments_.format == Format::kJson) {
      print(fixes_json(reports_, commands));
    } else {
      std::string text;
      for (size_t i = 0; i < reports_.size(); ++i)
        text += (i == 0 ? "" : "\n") + fixes_text(reports_[i], commands[i]);
      print(text);
    }
    return any ? verdict : Verdict::kInconclusive;
  }

 private:
  // Releases on which all is the same are one report.
  void try_on(const TestedProgram& program) {
    const FixSubject subject = subject_of(program);
    const std::vector<Release> releases = arguments_.deepspeed.empty()
                                              ? std::vector{failing_release(program)}
                                              : chosen_releases(arguments_.deepspeed);
    VariationsByRanks variations;
    const size_t first = reports_.size();
    std::optional<size_t> changes;
    size_t last = 0;
    for (const Release& release : releases) {
      if (changes == changes_until(release).size()) {
        reports_[last].releases.push_back(release);
        continue;
      }
      changes = changes_until(release).size();
      FixReport report = Trial(subject, release, variations).run(arguments_.fix);
      const auto same = std::find_if(reports_.begin() + static_cast<std::ptrdiff_t>(first), reports_.end(),
                                     [&](const FoldedFixReport& other) {
                                       return headline(other.report) == headline(report) &&
                                              fixes_body(other.report) == fixes_body(report);
                                     });
      last = static_cast<size_t>(same - reports_.begin());
      if (same != reports_.end()) {
        same->releases.push_back(release);
      } else {
        reports_.push_back({std::move(report), {release}});
      }
    }
  }

  // That something of that name was tried.
  void check_fix(const std::vector<TestedProgram>& programs) const {
    const auto has_results = [](const FoldedFixReport& one) { return !one.report.results.empty(); };
    if (std::ranges::any_of(reports_, has_results)) return;
    std::string known;
    for (const FoldedFixReport& one : reports_) {
      const auto program = std::ranges::find_if(programs, [&one](const TestedProgram& candidate) {
        return candidate.path == one.report.path && candidate.name == one.report.name;
      });
      const FixSubject subject = subject_of(*program);
      VariationsByRanks variations;
      const FixReport all = Trial(subject, one.releases.front(), variations).run();
      for (const FixResult& result : all.results) known += (known.empty() ? "" : ", ") + result.candidate.id;
      if (!known.empty()) break;
    }
    throw BadInput(fmt::format("--fix: no fix '{}' was tried", arguments_.fix),
                   known.empty() ? "there is nothing to cure" : "one of: " + known);
  }

  void write() const {
    if (arguments_.fix.empty()) throw BadInput("--write writes one fix", "name it with --fix");
    if (reports_.size() != 1) throw BadInput("--write takes one program on one release", "name one of each");
    write_fix(reports_.front().report, reports_.front().report.results.front(), arguments_.write);
  }

  const FixesArguments& arguments_;
  std::vector<FoldedFixReport> reports_;
};

}  // namespace

Verdict try_fixes(const FixesArguments& arguments) { return Fixes(arguments).run(); }

}  // namespace zero3::sim::cli
