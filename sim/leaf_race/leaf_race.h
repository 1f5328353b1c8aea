// Two or more autograd threads in the pre-backward hook of one leaf module of a model, on a release.
//
// A leaf module that returns several tensors has one hook a tensor, and autograd runs those of different devices on
// different threads (deepspeedai/DeepSpeed#7824). Nothing keeps the threads apart before the release with
// Behaviour::leaf_fetch_lock (#7825). Its other params, more than the explored ones, would add interleavings and no
// other way to fail; a persistent one is never gathered and left out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/behaviour.h"
#include "coordinator/param.h"
#include "coordinator/release.h"
#include "sim/leaf_race/interleavings.h"
#include "sim/program.h"

namespace zero3::sim {

struct RaceOptions {
  std::string module = {};  // its name; empty: the first leaf module that returns several tensors
  int threads = 2;
  bool threads_given = false;  // else a module that returns one tensor is refused
  int params = 2;              // at most so many of the leaf's are explored
  bool prefetched = false;     // see RaceSetup
};

// The leaf as the release's engine has it before the first step.
struct RacingLeaf {
  std::string name;
  std::string type;
  int ds_id = -1;
  int outputs = 1;
  std::vector<Param> params;  // those explored, by ds_id
  size_t partitioned = 0;     // all of the leaf's that are not persistent
  size_t leaf_modules = 0;    // of the model
  int ranks = 1;
  Behaviour behaviour;
  RaceSetup setup;

  // A param's name as seen from the leaf.
  std::string local_name(int param) const;
  // The exception of the step that ended an order, as Python shows it: "RuntimeError", str(exception).
  std::string exception(const RaceStep& step) const;
  std::string text(const RaceStep& step, const RaceState& state) const;
};

// Whether both race alike: the same threads, ids and texts. The interleavings of one are those of the other.
bool same_race(const RacingLeaf& a, const RacingLeaf& b);

// Throws BadInput: no such module, none that is a leaf, one that returns a single tensor, a release without leaf
// modules. `source`: of the model, for messages.
RacingLeaf racing_leaf(const Experiment& experiment, const Release& release, const RaceOptions& options,
                       const std::string& source);

}  // namespace zero3::sim
