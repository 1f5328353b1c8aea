// Which elements of which parameters come to hold another parameter's data, where ranks put different parameters of as
// many elements into one collective.
#pragma once

#include <string>
#include <vector>

#include "sim/rank_result.h"

namespace zero3::sim {

// `sides`: of one collective that completes. Empty: nothing is mixed.
std::vector<MixedPiece> mixed_pieces(const std::vector<Side>& sides);

// "collective 18 of the world group: rank 0 is in ..., rank 1 in ...: on rank 0, elements 32 to 63 of B.weight are rank
// 1's of C.weight"
std::string text_of(const MixUp& mix_up);
// "rank 0", "ranks 0, 2, 3"
std::string rank_list(const std::vector<int>& ranks);

}  // namespace zero3::sim
