// The chain of decisions that brought a param into the state in which a failure found it.
#pragma once

#include <string>
#include <vector>

#include "sim/report/recording.h"

namespace zero3::sim {

// One line an event that mattered to the param since it was last partitioned, oldest first; the last kMaxStoryLines.
std::vector<std::string> story_of(const Recording& recording, int ds_id);

}  // namespace zero3::sim
