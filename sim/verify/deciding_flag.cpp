#include "sim/verify/deciding_flag.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "sim/behaviour_trial.h"
#include "sim/verify/model_trace.h"

namespace zero3::sim {
namespace {

// Every value that any release gave a flag and this one does not: the oldest row of each.
std::vector<Change> other_values(const Release& release) {
  std::map<std::string_view, std::string_view> own;
  for (const Change& change : changes_until(release)) own[change.flag] = change.value;
  std::set<std::pair<std::string_view, std::string_view>> taken;
  std::vector<Change> others;
  for (const Change& change : changes_until(known_releases().back())) {
    const auto now = own.find(change.flag);
    if (now != own.end() && now->second == change.value) continue;
    if (taken.emplace(change.flag, change.value).second) others.push_back(change);
  }
  return others;
}

}  // namespace

std::vector<DecidingFlag> deciding_flags(const Experiment& experiment, const Release& release, uint64_t seed,
                                         const RunTrace& real, const Difference& difference) {
  std::vector<DecidingFlag> found;
  for (const Change& change : other_values(release)) {
    const auto agrees = tried(behaviour_with(release, {&change, 1}),
                              [&](const Behaviour& behaviour) -> std::optional<DecidingFlag> {
                                const ModelRun model =
                                    model_run(experiment, real.scenario, release, behaviour, seed);
                                const auto now = difference_of_rank(model.trace, real, difference.rank);
                                if (now && now->line <= difference.line) return std::nullopt;
                                const Comparison whole = compare(model.trace, real);
                                return DecidingFlag{change, whole.outcome == Comparison::Outcome::kAgrees};
                              });
    if (agrees && *agrees) found.push_back(**agrees);
  }
  const bool any_whole = std::ranges::any_of(found, &DecidingFlag::agrees_whole);
  if (any_whole) std::erase_if(found, [](const DecidingFlag& flag) { return !flag.agrees_whole; });
  return found;
}

}  // namespace zero3::sim
