// An interleaving in words: a line for each function that a thread is in before another thread, or function, has its
// turn.
#pragma once

#include <string>
#include <vector>

#include "sim/leaf_race/leaf_race.h"

namespace zero3::sim {

std::vector<std::string> story_lines(const RacingLeaf& leaf, const RaceStory& story);

// NOT_AVAILABLE, INFLIGHT, AVAILABLE.
std::string status_word(RaceStatus status);
// Of bits by RaceStatus.
std::vector<std::string> statuses_of(uint8_t bits);

}  // namespace zero3::sim
