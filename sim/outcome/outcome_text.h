// An outcome in words.
#pragma once

#include <string>

#include "sim/outcome/outcome.h"

namespace zero3::sim {

// All that is to be told of it but its costs, a line each: the failure and where, wrong data, silent faults, what the
// release lacks. "completes" where nothing is.
std::string outcome_text(const Outcome& outcome);

// A text of several lines below a first one: each further line begins with so many blanks.
std::string hanging(std::string text, size_t blanks);

}  // namespace zero3::sim
