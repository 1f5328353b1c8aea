#include "sim/behaviour_trial.h"

namespace zero3::sim {

std::vector<Change> changes_between(const Release& before, const Release& after) {
  std::vector<Change> changes = changes_until(after);
  std::erase_if(changes, [&](const Change& change) { return change.since <= before; });
  return changes;
}

Change holding(const Release& release, std::string_view flag) {
  const std::vector<Change> changes = changes_until(release);
  Change found = changes.front();
  for (const Change& change : changes) {
    if (change.flag == flag) found = change;
  }
  return found;
}

Behaviour behaviour_with(const Release& release, std::span<const Change> changes) {
  Behaviour behaviour = behaviour_of(release);
  for (const Change& change : changes) change.apply(behaviour);
  return behaviour;
}

}  // namespace zero3::sim
