// Today's outcomes against a baseline's: every difference, and whether the baseline accepts it.
#pragma once

#include <string>
#include <vector>

#include "sim/outcome/tested_program.h"
#include "sim/regress/baseline.h"
#include "sim/verdict.h"

namespace zero3::sim {

// The same change of one program, on every release that shows it.
struct Regression {
  std::string program = {};
  int ranks = 1;
  std::vector<Release> releases = {};  // ascending
  std::vector<Release> against = {};   // the baseline's, where it has not those themselves; ascending
  OutcomeChange change = {};
  bool accepted = false;
  std::string reproduce = {};  // "" where there is nothing to run
};

struct RegressionReport {
  std::string baseline = {};            // its file
  std::vector<Release> releases = {};   // compared
  size_t programs = 0;                  // compared
  std::vector<std::string> names = {};  // of the programs with their ranks, for reports that name each
  std::vector<Regression> regressions = {};
  std::vector<AcceptedChange> idle = {};    // accepted for a release compared, and no difference any more
  std::string installed = {};               // the DeepSpeed held against its model; "": none
  std::vector<std::string> undecided = {};  // real runs that could not tell, in words
  std::vector<std::string> not_run = {};    // recorded: their own script alone can run them on that DeepSpeed

  size_t count(bool accepted) const;
  Verdict verdict() const;
};

// How `now` differs from `then`; what only follows from another end is left out. Empty only if they are equal.
std::vector<OutcomeChange> changes_of(const Outcome& then, const Outcome& now);

// A program is the baseline's of its name and number of ranks, the n-th of several. A release that the baseline has not
// is compared with the nearest before it in the baseline.
RegressionReport compare(const Baseline& baseline, const std::vector<TestedProgram>& programs,
                         const std::vector<Release>& releases);

// Adds a regression, together with those of the same change; accepted if the baseline says so.
void add(RegressionReport& report, const Baseline& baseline, const Regression& regression);

// Accepts what is not.
void accept_all(RegressionReport& report, Baseline& baseline);

std::string text_report(const RegressionReport& report);
std::string json_report(const RegressionReport& report);   // docs/regress.md
std::string junit_report(const RegressionReport& report);  // a case for each program

}  // namespace zero3::sim
