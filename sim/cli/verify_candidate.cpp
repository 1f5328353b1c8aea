#include "sim/cli/verify_candidate.h"

#include <utility>

#include "sim/cli/common.h"
#include "sim/cli/terminal.h"
#include "sim/release_features.h"
#include "sim/report/words.h"
#include "sim/verify/trace_text.h"
#include "sim/whole_file.h"

namespace zero3::sim::cli {
namespace {

// What the release lacks for it; "" if nothing.
std::string lacking(const Candidate& candidate, const Release& release) {
  if (candidate.scenario != nullptr && can_run(*candidate.scenario, candidate.experiment, release)) return "";
  const auto missing = first_missing(candidate.experiment, release);
  return missing ? missing->message(release) : "";
}

// The end of a real run: that of the model where both agree, for texts have no kinds; else as far as it is told.
std::string disagreement(const Candidate& candidate, const Verification& done, const Release& release) {
  if (candidate.scenario == nullptr || !done.real.trace.whole || done.real.trace.refused) return "";
  const std::optional<Expectation> expected = candidate.scenario->expected_for(release, candidate.ranks());
  if (!expected) return "";
  if (done.agrees()) {
    Outcome outcome = end_of(candidate.experiment, done.model.result);
    for (const TraceStatement& statement : done.real.trace.by_rank.front().statements) {
      for (const TraceEvent& event : statement.events)
        if (event.event == name(EventKind::kPrint)) outcome.printed.push_back(event.text);
    }
    return difference(*expected, ending_of(outcome));
  }
  for (const RankTrace& rank : done.real.trace.by_rank) {
    if (rank.failed() && !expected->failure)
      return "expected completes, real DeepSpeed raised " + text_of(*rank.statements.back().failure);
    if (rank.failed() || rank.stop) return "";
  }
  return difference(*expected, Ending{});
}

}  // namespace

VerifiedRun verified(const Candidate& candidate, const ModelledRelease& modelled,
                     const std::function<Verification()>& verify) {
  VerifiedRun run{.name = candidate.name,
                  .ranks = candidate.ranks(),
                  .seed = candidate.seed,
                  .reproduce = candidate.reproduce};
  run.skipped = lacking(candidate, modelled.release);
  if (!run.skipped.empty()) return run;
  const Verification done = verify();
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

Verdict tell(const VerifyReport& report, const VerifyArguments& arguments) {
  if (!arguments.junit.empty()) write_whole_file(arguments.junit, junit_report(report), "JUnit file");
  print(arguments.format == Format::kJson ? json_report(report) : text_report(report, terminal_columns()));
  return report.verdict();
}

}  // namespace zero3::sim::cli
