#include "sim/fixes/trial.h"

#include <algorithm>
#include <list>
#include <utility>

#include <fmt/format.h>

#include "coordinator/behaviour.h"
#include "sim/bad_input.h"
#include "sim/fixes/baseline.h"

namespace zero3::sim {
namespace {

constexpr std::array<std::string_view, 4> kCures = {"cured", "cured, but", "not cured", "does not apply"};

constexpr const char* kOlder = "older-release";
constexpr const char* kNewer = "newer-release";

bool has_kind(const Outcome& outcome, std::string_view kind) {
  const std::vector<std::string> kinds = outcome.silent_kinds();
  return std::ranges::find(kinds, kind) != kinds.end();
}

Experiment given_program(const FixSubject& subject) {
  std::optional<Experiment> given = subject.experiment(subject.ranks);
  if (!given)
    throw BadInput(fmt::format("{}: there is no such program on {} ranks", subject.path, subject.ranks));
  return std::move(*given);
}

}  // namespace

std::string_view name(Cure cure) { return kCures[static_cast<size_t>(cure)]; }

int FixReport::smallest() const {
  const auto found = std::ranges::find_if(results, &FixResult::holds);
  return found == results.end() ? -1 : static_cast<int>(found - results.begin());
}

Trial::Trial(const FixSubject& subject, const Release& release, VariationsByRanks& variations)
    : subject_(subject), release_(release), given_(given_program(subject)), variations_(variations) {
  unfixed_ = outcome(given_, release_);
  ailment_ = ailment_of(unfixed_);
}

// What a rank moves and holds follows from its own program; where all have the same, it is looked at on few ranks.
Outcome Trial::outcome(const Experiment& experiment, const Release& release) const {
  const std::vector<Program>& programs = experiment.rank_programs;
  const bool few = programs.size() <= 2 || programs.size() == static_cast<size_t>(subject_.ranks);
  const bool audited = few || std::ranges::any_of(programs, [&programs](const Program& program) {
                         return program != programs.front();
                       });
  return outcome_of(experiment, release, {.seed = subject_.seed, .audited = audited});
}

const Variations& Trial::variations(int ranks) {
  const auto known = variations_.find(ranks);
  if (known != variations_.end()) return known->second;
  const std::optional<Experiment> experiment = subject_.experiment(ranks);
  return variations_[ranks] = experiment ? variations_of(*experiment) : Variations{};
}

// The program's own number of ranks, too, where it is another.
std::vector<int> Trial::world_sizes() {
  std::vector<int> all(kWorldSizes.begin(), kWorldSizes.end());
  if (std::ranges::find(all, subject_.ranks) == all.end()) all.push_back(subject_.ranks);
  std::ranges::sort(all);
  std::erase_if(all, [this](int ranks) { return variations(ranks).programs.empty(); });
  return all;
}

const Outcome& Trial::unfixed(int ranks, size_t variation) {
  const std::pair key(ranks, variation);
  const auto known = unfixed_outcomes_.find(key);
  if (known != unfixed_outcomes_.end()) return known->second;
  return unfixed_outcomes_[key] = outcome(variations(ranks).programs[variation].experiment, release_);
}

bool Trial::cured(const Outcome& outcome, int ranks, size_t variation) {
  if (outcome.end != End::kCompletes || has_kind(outcome, ailment_)) return false;
  const std::string_view stale = name(SilentFaultKind::kStaleWeights);
  if (!has_kind(outcome, stale)) return true;
  const Outcome& before = unfixed(ranks, variation);
  return before.end == End::kCompletes && has_kind(before, stale);
}

void Trial::try_variations(FixResult& result, int ranks, const Variations& programs) {
  const Candidate& candidate = result.candidate;
  const Release& release = candidate.release.value_or(release_);
  std::list<Experiment> changed;  // those that are changed in their program: two variations may become one
  for (size_t i = 0; i < programs.programs.size(); ++i) {
    const Variation& variation = programs.programs[i];
    std::optional<Experiment> made;
    if (candidate.change) made = candidate.change(variation.experiment);
    if (made && candidate.kind == FixKind::kProgram) {
      const auto same = std::ranges::find(changed, made->rank_programs, &Experiment::rank_programs);
      if (same != changed.end()) continue;
      changed.push_back(*made);
    }
    const Experiment& experiment = made ? *made : variation.experiment;
    ++result.programs;
    Outcome end = outcome(experiment, release);
    const bool no_program = end.failure && end.failure->kind == FailureKind::kNoGradient;
    if (no_program || cured(end, ranks, candidate.program ? 0 : i)) continue;
    result.counterexample = {ranks, variation.what, std::move(end), experiment};
    return;
  }
}

// The fewest ranks first: the first counterexample is the smallest.
void Trial::attempt_all(FixResult& result) {
  const Candidate& candidate = result.candidate;
  for (const int ranks : world_sizes()) {
    if (candidate.program) {
      const std::optional<Experiment> own = candidate.program(ranks);
      if (own) try_variations(result, ranks, variations_of(*own, false));
    } else {
      try_variations(result, ranks, variations(ranks));
    }
    if (result.counterexample) return;
  }
}

FixResult Trial::attempt(const Candidate& candidate) {
  FixResult result{.candidate = candidate};
  if (!candidate.inapplicable.empty()) {
    result.why = candidate.inapplicable;
    return result;
  }
  result.changed = candidate.program  ? candidate.program(subject_.ranks)
                   : candidate.change ? candidate.change(given_)
                                      : std::optional(given_);
  if (!result.changed) {
    result.why = "there is nothing that it changes";
    return result;
  }
  result.outcome = outcome(*result.changed, candidate.release.value_or(release_));
  ++result.programs;
  if (result.outcome.end == End::kLacking) {
    result.why = result.outcome.lacking;
    return result;
  }
  if (!cured(result.outcome, subject_.ranks, 0)) {
    result.cure = Cure::kNotCured;
    return result;
  }
  attempt_all(result);
  judge(result);
  return result;
}

void Trial::judge(FixResult& result) const {
  for (const SilentFault& fault : result.outcome.silent_faults()) {
    const bool before = unfixed_.end == End::kCompletes && has_kind(unfixed_, name(fault.kind));
    if (!before && fault.consequence != Consequence::kHarmless) result.faults.push_back(fault);
  }
  bool dearer = false;
  if (baseline_) {
    const std::optional<Measure> measure = measure_of(result.outcome, *result.changed, baseline_->by_forward);
    if (measure) {
      const Measure& base = baseline_->measure;
      result.more = {measure->all_gathers - base.all_gathers, measure->exposed - base.exposed,
                     measure->numel - base.numel, measure->peak_numel - base.peak_numel};
      dearer = result.more->all_gathers > 0 || result.more->exposed > 0 || result.more->numel > 0 ||
               result.more->peak_numel > 0;
    }
  }
  const bool clean = !result.counterexample && result.faults.empty() && !dearer;
  result.cure = clean ? Cure::kCured : Cure::kCuredBut;
}

std::optional<FixResult> Trial::nearest_release(bool newer) {
  const auto known = known_releases();
  auto at = std::ranges::find(known, release_) - known.begin();
  std::optional<FixResult> partly;
  size_t tried = changes_until(release_).size();
  for (at += newer ? 1 : -1; at >= 0 && at < std::ssize(known); at += newer ? 1 : -1) {
    const Release& release = known[static_cast<size_t>(at)];
    if (release.text().ends_with("-dev")) continue;  // nobody can install it
    if (const size_t changes = changes_until(release).size(); changes == tried) continue;
    tried = changes_until(release).size();
    FixResult result = attempt({.id = newer ? kNewer : kOlder,
                                .kind = FixKind::kRelease,
                                .what = "DeepSpeed " + release.text(),
                                .release = release});
    if (result.holds()) return result;
    if (result.cure == Cure::kCuredBut && !partly) partly = std::move(result);
  }
  return partly;
}

// The nearer one first. One that the file names too is that.
void Trial::add_releases(FixReport& report, const std::string& only) {
  const auto known = known_releases();
  const auto distance = [&](const FixResult& result) -> std::ptrdiff_t {
    if (!result.candidate.release) return result.candidate.kind == FixKind::kRelease ? std::ssize(known) : 0;
    return std::abs((std::ranges::find(known, *result.candidate.release) - known.begin()) -
                    (std::ranges::find(known, release_) - known.begin()));
  };
  for (const bool newer : {false, true}) {
    if (!only.empty() && only != (newer ? kNewer : kOlder)) continue;
    std::optional<FixResult> found = nearest_release(newer);
    if (!found) {
      report.results.push_back({.candidate = {.id = newer ? kNewer : kOlder,
                                              .kind = FixKind::kRelease,
                                              .what = newer ? "a newer release" : "an older release"},
                                .why = "there is none on which it is well"});
      continue;
    }
    const std::optional<Release> wanted = found->candidate.release;
    const auto same = std::ranges::find(report.results, wanted,
                                        [](const FixResult& other) { return other.candidate.release; });
    if (same == report.results.end()) {
      report.results.push_back(std::move(*found));
    } else {
      found->candidate.names.push_back(same->candidate.id);
      *same = std::move(*found);
    }
  }
  const auto nearer = [&](const FixResult& a, const FixResult& b) {
    return std::pair(a.candidate.kind, distance(a)) < std::pair(b.candidate.kind, distance(b));
  };
  std::ranges::stable_sort(report.results, nearer);
}

FixReport Trial::run(const std::string& only) {
  FixReport report{.name = subject_.name,
                   .path = subject_.path,
                   .release = release_,
                   .ranks = subject_.ranks,
                   .seed = subject_.seed,
                   .partial = subject_.partial,
                   .outcome = unfixed_,
                   .ailment = ailment_};
  if (ailment_.empty() || unfixed_.end == End::kLacking) {
    report.ailment.clear();
    return report;
  }
  baseline_ = find_baseline(given_, unfixed_, release_, subject_.seed);
  report.baseline = baseline_;
  report.world_sizes = world_sizes();
  const Variations& own = variations(subject_.ranks);
  report.variations = own.programs.size() - 1;
  report.possible_variations = own.possible;
  for (const Candidate& candidate : candidates_for(subject_, given_, release_, unfixed_)) {
    if (only.empty() || candidate.is_named(only)) report.results.push_back(attempt(candidate));
  }
  add_releases(report, only);
  return report;
}

}  // namespace zero3::sim
