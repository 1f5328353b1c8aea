// Rows of the behaviour table as trials: one applied to a release that has it not, or undone on one that has, to see
// what it decides.
#pragma once

#include <exception>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "coordinator/behaviour.h"
#include "coordinator/release.h"

namespace zero3::sim {

// The rows of all releases after `before`, up to and including `after`, oldest first. Precondition: before < after.
std::vector<Change> changes_between(const Release& before, const Release& after);

// The row that holds for that flag of a release.
Change holding(const Release& release, std::string_view flag);

// The release's behaviour with these rows applied.
Behaviour behaviour_with(const Release& release, std::span<const Change> changes);

// What `run` makes of a behaviour; nothing if it throws, as a mix of flags that no release has may.
template <class Run>
std::optional<std::invoke_result_t<const Run&, const Behaviour&>> tried(const Behaviour& behaviour,
                                                                        const Run& run) {
  try {
    return run(behaviour);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace zero3::sim
