// What a rank tells the others of a collective before its data moves: ranks whose headers differ do not meet.
#pragma once

#include <cstdint>

#include "sim/backends/collective.h"

namespace zero3::sim {

struct CollectiveHeader {
  int64_t kind = 0;
  int64_t numel = 0;
  int64_t source_rank = 0;
  int64_t number = 0;

  bool operator==(const CollectiveHeader&) const = default;
};

inline CollectiveHeader header_of(const Collective& collective) {
  return {static_cast<int64_t>(collective.kind), collective.numel(), collective.source_rank,
          static_cast<int64_t>(collective.number)};
}

}  // namespace zero3::sim
