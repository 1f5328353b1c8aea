// Counts what operator new hands out in the benchmark's program.
#pragma once

#include <cstdint>

namespace zero3::bench {

struct Allocations {
  int64_t live_bytes = 0;  // as the allocator rounded them up
  int64_t calls = 0;
};

// Since the program began.
Allocations allocations();

}  // namespace zero3::bench
