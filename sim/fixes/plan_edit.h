// What one forward leaves out of another: the branch of a program, as its plans show it.
//
// Plans are trees of calls. A forward branches if its plan is another one with calls left out, in one list of calls
// or in several; one that calls in another order, or something of its own, does not.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "sim/program.h"

namespace zero3::sim {

using Calls = std::vector<PlannedCall>;

// Calls that a plan leaves out of one list of the whole plan: the modules around the list, outermost first, by index in
// the list that each is called in; and the left out calls, by index in the whole list.
struct LeftOut {
  std::vector<size_t> path;
  std::vector<size_t> calls;  // ascending

  bool operator==(const LeftOut&) const = default;
};

// By list, in the order of the whole plan; empty if nothing is left out. Nothing if `part` is not `whole` with calls
// left out.
std::optional<std::vector<LeftOut>> left_out(const Calls& part, const Calls& whole);

// The shortest plan of which both are a part; nothing if that would call some module more often than both of them do
// in that list: then they are not branches of one forward.
std::optional<Calls> united(const Calls& a, const Calls& b);

// `part` with all that it leaves out of `whole` called too, its results used by nobody. Precondition: left_out() of
// both.
Calls with_discarded(const Calls& part, const Calls& whole);

// The list of calls at a path; its length.
const Calls& list_at(const Calls& whole, const std::vector<size_t>& path);
Calls& list_at(Calls& whole, const std::vector<size_t>& path);

}  // namespace zero3::sim
