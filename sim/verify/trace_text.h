// Lines of a trace as people read them.
#pragma once

#include <string>

#include "sim/verify/trace.h"

namespace zero3::sim {

// "fetch A [1] forward", "all-gather A.weight for root [0] (prefetched)".
std::string text_of(const TraceEvent& event);
// "RuntimeError: still have inflight params ..."
std::string text_of(const TraceFailure& failure);
std::string text_of(const TraceStop& stop);

}  // namespace zero3::sim
