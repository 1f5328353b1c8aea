// Tries fixes on a program: on the release that it fails on, in all its variations and on several numbers of ranks.
//
// A fix cures a run that completes with no wrong data, without the silent fault that the program suffered from, and
// without stale weights that were not there before. What it costs is told apart. docs/fixes.md is for users.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coordinator/release.h"
#include "sim/fixes/baseline.h"
#include "sim/fixes/catalogue.h"
#include "sim/fixes/subject.h"
#include "sim/fixes/variations.h"
#include "sim/outcome/outcome.h"

namespace zero3::sim {

// The best first.
enum class Cure {
  kCured,
  kCuredBut,  // the program as it is given; at a cost, or not in every variation or on every number of ranks
  kNotCured,
  kDoesNotApply,
};

std::string_view name(Cure cure);  // "cured", "cured, but", "not cured", "does not apply"

// A changed program that does not end well.
struct Counterexample {
  int ranks = 1;
  std::string what;  // Variation::what; "": the program that is given
  Outcome outcome;
  Experiment experiment;
};

struct FixResult {
  Candidate candidate;
  Cure cure = Cure::kDoesNotApply;
  std::string why = {};  // it does not apply
  Outcome outcome = {};  // of the program that is given, changed
  std::optional<Experiment> changed = {};
  std::optional<Counterexample> counterexample = {};
  std::optional<Measure> more =
      {};  // than the baseline; none: there is no baseline, or the fix does not cure
  std::vector<SilentFault> faults = {};  // that were not there before
  size_t programs = 0;                   // were run

  bool holds() const { return cure <= Cure::kCuredBut && !counterexample; }
};

struct FixReport {
  std::string name;
  std::string path;
  Release release;
  int ranks = 1;
  uint64_t seed = 0;
  bool partial = false;            // a recording that was cut
  Outcome outcome;                 // of the program as it is
  std::string ailment;             // "": there is nothing to cure, and nothing was tried
  size_t variations = 0;           // tried, beside the program that is given
  size_t possible_variations = 0;  // more, where not all were
  std::vector<int> world_sizes = {};
  std::optional<FixBaseline> baseline = {};
  std::vector<FixResult> results = {};  // the smallest change first

  // The first that cures every variation on every number of ranks; -1: none does.
  int smallest() const;
};

constexpr std::array<int, 4> kWorldSizes = {1, 2, 4, 8};

// The variations of one subject, by number of ranks: they are the same on every release.
using VariationsByRanks = std::map<int, Variations>;

class Trial {
 public:
  // `variations`: of the same subject; filled in as they are needed. Both must outlive the trial.
  Trial(const FixSubject& subject, const Release& release, VariationsByRanks& variations);

  // `only`: a fix, by its own name or by one that the file gives it; empty: all.
  FixReport run(const std::string& only = "");

 private:
  const Variations& variations(int ranks);
  // Ascending; those that there is a program for.
  std::vector<int> world_sizes();
  Outcome outcome(const Experiment& experiment, const Release& release) const;
  const Outcome& unfixed(int ranks, size_t variation);
  bool cured(const Outcome& outcome, int ranks, size_t variation);
  FixResult attempt(const Candidate& candidate);
  // Fills in everything but the kind of the cure.
  void attempt_all(FixResult& result);
  void try_variations(FixResult& result, int ranks, const Variations& programs);
  void judge(FixResult& result) const;
  // The nearest release in that direction on which the program is well; the cure of it all if there is one.
  std::optional<FixResult> nearest_release(bool newer);
  void add_releases(FixReport& report, const std::string& only);

  const FixSubject& subject_;
  Release release_;
  Experiment given_;
  Outcome unfixed_;
  std::string ailment_;
  std::optional<FixBaseline> baseline_;
  VariationsByRanks& variations_;
  std::map<std::pair<int, size_t>, Outcome> unfixed_outcomes_;
};

}  // namespace zero3::sim
