// Every order in which the threads of a FetchThreads can take their steps, and how each order ends.
//
// An interleaving ends at the first exception, or when no thread can go on. Orders that reach the same state go on
// alike: states are kept once, with the number of ways that lead to them, level by level of steps taken, so that the
// first way to an end is a shortest one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/leaf_race/count.h"
#include "sim/leaf_race/fetch_threads.h"

namespace zero3::sim {

// How an interleaving ends: an exception, or, without one, what is left behind.
struct RaceEnd {
  std::optional<RaceFailure> failure = {};
  bool stuck = false;           // a thread waits for ever
  bool gathered_twice = false;  // launches of the threads: another rank may launch once, and hangs
  bool taken_back = false;  // a param was gathered again while a thread that had fetched it computes with it
  bool left_registered = false;  // a param is still in the registry
  bool left_in_flight = false;   // a param is not AVAILABLE
  bool uncounted = false;        // the step id was raised less often than hooks ran: the trace is behind

  auto operator<=>(const RaceEnd&) const = default;
  bool completes() const { return *this == RaceEnd{}; }
  // Whether anything but the step id is wrong.
  bool harmful() const;
  // "already-in-registry", "completes", "gathered-twice+taken-back".
  std::string name() const;
};

struct RaceOutcome {
  RaceEnd end;
  Count interleavings;
  std::vector<int> shortest;  // the thread of each step of one shortest interleaving
  uint8_t gathers_seen = 0;   // bits: how many all-gathers the threads had launched, 0 to 4
  uint8_t statuses_seen = 0;  // bits by RaceStatus: of a failure's summary
  uint8_t params_seen = 0;    // bits: params that the failure can name
};

struct Interleavings {
  Count total;
  uint64_t states = 0;
  std::vector<RaceOutcome>
      outcomes;  // failures first, in the order of their enum; then by what is left behind

  const RaceOutcome* find(const RaceEnd& end) const;
};

// Nothing: there are more than `max_states` states.
std::optional<Interleavings> explore(const FetchThreads& threads, uint64_t max_states);

// How a state without runnable threads, or one reached by a step that raised, ends.
RaceEnd end_of(const FetchThreads& threads, const RaceState& state, const RaceStep& last);

struct RaceStory {
  std::vector<RaceStep> steps;
  std::optional<RaceEnd> end;  // nothing: the order stops before the end
  RaceState state;             // at the end
  size_t taken =
      0;  // steps of the order that could be taken: fewer where it names a thread that cannot go on
};

// The steps of one order of threads, up to its end.
RaceStory tell(const FetchThreads& threads, const std::vector<int>& order);

}  // namespace zero3::sim
