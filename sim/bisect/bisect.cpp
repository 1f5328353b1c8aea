#include "sim/bisect/bisect.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "sim/bad_input.h"
#include "sim/behaviour_trial.h"

namespace zero3::sim {
namespace {

// Tries suspects at one change point.
class Trial {
 public:
  Trial(const TestedProgram& program, ChangePoint& point) : program_(program), point_(point) {}

  void run() {
    const std::vector<Change> rows = changes_between(point_.before, point_.after);
    point_.rows = rows.size();
    for (const Change& row : rows) add({row});
    if (point_.deciding.empty()) {
      std::map<std::string_view, std::vector<Change>> by_source;
      for (const Change& row : rows) by_source[row.source].push_back(row);
      for (const auto& [source, changes] : by_source) {
        if (changes.size() > 1) add(changes);
      }
    }
    std::ranges::stable_sort(point_.deciding, std::greater(), [](const Suspect& suspect) {
      return std::pair(suspect.undoing_restores && suspect.applying_brings, suspect.undoing_restores);
    });
  }

 private:
  void add(const std::vector<Change>& changes) {
    Suspect suspect{.changes = changes, .undone = {}};
    for (const Change& change : changes) suspect.undone.push_back(holding(point_.before, change.flag));
    suspect.without = outcome(point_.after, suspect.undone);
    suspect.with = outcome(point_.before, suspect.changes);
    suspect.undoing_restores = suspect.without && end_alike(*suspect.without, point_.was);
    suspect.applying_brings = suspect.with && end_alike(*suspect.with, point_.is);
    if (suspect.decides()) point_.deciding.push_back(std::move(suspect));
  }

  std::optional<Outcome> outcome(const Release& release, const std::vector<Change>& changes) const {
    return tried(behaviour_with(release, changes), [&](const Behaviour& behaviour) {
      return outcome_of(program_.experiment, release, {.seed = program_.seed, .behaviour = behaviour});
    });
  }

  const TestedProgram& program_;
  ChangePoint& point_;
};

std::vector<Release> releases_between(const Release& a, const Release& b) {
  const std::span<const Release> known = known_releases();
  return {std::ranges::find(known, std::min(a, b)), std::ranges::find(known, std::max(a, b)) + 1};
}

void check_ends(const TestedProgram& program, const Bisection& bisection) {
  for (const Outcome* outcome : {&bisection.good_outcome, &bisection.bad_outcome}) {
    if (outcome->end == End::kLacking)
      throw BadInput(fmt::format("{}: {}", program.name, outcome->lacking), "name a release that can run it");
  }
  if (!end_alike(bisection.good_outcome, bisection.bad_outcome)) return;
  throw BadInput(fmt::format("{} ends alike on {} and {}: {}", program.name, bisection.good.text(),
                             bisection.bad.text(), cell_word(bisection.good_outcome)),
                 "zero3sim matrix shows where it changes");
}

}  // namespace

std::vector<std::string> ChangePoint::sources() const {
  std::vector<std::string> sources;
  for (const Suspect& suspect : deciding) {
    std::string source(suspect.changes.front().source);
    if (std::ranges::find(sources, source) == sources.end()) sources.push_back(std::move(source));
  }
  return sources;
}

Bisection bisect(const TestedProgram& program, const Release& good, const Release& bad) {
  if (good == bad)
    throw BadInput(fmt::format("--good and --bad are both {}", good.text()), "name two releases");
  Bisection bisection{.good = good, .bad = bad};
  std::vector<ReleaseOutcome> outcomes = program.outcomes_on(releases_between(good, bad));
  const bool upward = good < bad;
  bisection.good_outcome = (upward ? outcomes.front() : outcomes.back()).outcome;
  bisection.bad_outcome = (upward ? outcomes.back() : outcomes.front()).outcome;
  check_ends(program, bisection);
  for (const ReleaseOutcome& one : outcomes) {
    if (one.outcome.end == End::kLacking) bisection.lacking.push_back(one.release);
  }
  std::erase_if(outcomes, [](const ReleaseOutcome& one) { return one.outcome.end == End::kLacking; });
  for (size_t i = 1; i < outcomes.size(); ++i) {
    if (end_alike(outcomes[i - 1].outcome, outcomes[i].outcome)) continue;
    ChangePoint point{.before = outcomes[i - 1].release,
                      .after = outcomes[i].release,
                      .was = outcomes[i - 1].outcome,
                      .is = outcomes[i].outcome};
    Trial(program, point).run();
    bisection.points.push_back(std::move(point));
  }
  if (!upward) std::ranges::reverse(bisection.points);
  const auto as_bad = std::ranges::find_if(bisection.points, [&](const ChangePoint& point) {
    return end_alike(upward ? point.is : point.was, bisection.bad_outcome);
  });
  bisection.first = static_cast<size_t>(as_bad - bisection.points.begin());
  return bisection;
}

}  // namespace zero3::sim
