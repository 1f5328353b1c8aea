// What one forward calls: a tree of module calls, in order.
#pragma once

#include <optional>
#include <vector>

#include "coordinator/model.h"

namespace zero3 {

enum class Checkpointing {
  kNone,
  kReentrant,       // torch.utils.checkpoint(..., use_reentrant=True)
  kNonReentrant,    // use_reentrant=False, with torch 2.1's early stop of the recomputation
  kWholeRecompute,  // use_reentrant=False before torch 2.1: recomputes the whole region
};

// What DeepSpeed's hooks find among the tensors that a recorded call was given by position, or returned. Numbers of
// tensors that require grad; "reached": those of them that backward comes to.
struct Tensors {
  int requiring_grad = 0;  // the value itself, or in tuples
  int reached = 0;
  int contained_requiring_grad = 0;  // in lists and dicts, which not every release looks into
  int contained_reached = 0;

  bool operator==(const Tensors&) const = default;
};

// Tensors that require grad, where nothing is asked about backward.
struct TensorCount {
  int plain = 0;      // the value itself, or in tuples
  int contained = 0;  // in lists and dicts

  bool operator==(const TensorCount&) const = default;
};

// Where a call was recorded, its tensors stand for the guess that each call takes what the one before it returned.
struct Flow {
  Tensors inputs = {.requiring_grad = 1, .reached = 1};
  Tensors outputs = {.requiring_grad = 1, .reached = 1};
  // Of a call in a reentrant region, when that runs for the first time, without grad: what the region was given still
  // requires grad, what is computed from it does not.
  TensorCount first_inputs = {};
  TensorCount first_outputs = {};

  bool operator==(const Flow&) const = default;
};

// Recorded forwards also have items without a module: a weight that the module around them reads; a checkpointed region
// (`checkpointing` says how), which may be any part of the body of a module; the place in a region where its
// recomputation stopped.
struct Call {
  Module* module = nullptr;
  std::vector<Call> children = {};  // what its forward calls after using its own weights
  Checkpointing checkpointing = Checkpointing::kNone;
  bool detach_input = false;      // its input requires no grad
  bool discard_output = false;    // nobody uses what it returns
  std::optional<Flow> flow = {};  // of a recorded call; then so of all calls of the forward
  Param* read = nullptr;          // a weight that is not the module's own
  bool stops = false;

  bool is_region() const { return module == nullptr && checkpointing != Checkpointing::kNone; }
};

}  // namespace zero3
