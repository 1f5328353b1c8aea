// An outcome as JSON and back: docs/matrix.md, "An outcome in JSON".
#pragma once

#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

#include "sim/outcome/outcome.h"

namespace zero3::sim {

// A silent fault of one rank.
nlohmann::ordered_json fault_json(const SilentFault& fault);

// What is empty is left out, but for usage, which a run that was audited always has.
nlohmann::ordered_json outcome_json(const Outcome& outcome);

// Throws NotAnOutcome, whose what() names the member. outcome_of_json(outcome_json(x)) == x.
class NotAnOutcome : public std::runtime_error {
  using std::runtime_error::runtime_error;
};
Outcome outcome_of_json(const nlohmann::ordered_json& json);

}  // namespace zero3::sim
