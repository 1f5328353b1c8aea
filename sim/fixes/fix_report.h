// What was tried, for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "sim/fixes/trial.h"
#include "sim/verdict.h"

namespace zero3::sim {

// One report for the releases on which it is the same, oldest first.
struct FoldedFixReport {
  FixReport report;
  std::vector<Release> releases;
};

// As expected: something cures it everywhere. Inconclusive: there is nothing to cure.
Verdict verdict_of(const FixReport& report);

// How a run ended: "inflight-at-reset at step 3 (train: A C)", "stale-weights".
std::string ending_text(const Outcome& outcome);
// Where it does not hold, and how that ends: "on 2 ranks, without fc1: hang at step 3 (train)".
std::string counterexample_text(const Counterexample& counterexample);

// `reproduce`: a command line.
std::string fixes_text(const FoldedFixReport& folded, const std::string& reproduce);
// How it ends without a fix, in the first line; and the lines below it. Reports are the same if both are.
std::string headline(const FixReport& report);
std::string fixes_body(const FixReport& report);
// Pretty-printed, newline at the end: an object, or a list of several.
std::string fixes_json(const std::vector<FoldedFixReport>& reports,
                       const std::vector<std::string>& reproduce);

}  // namespace zero3::sim
