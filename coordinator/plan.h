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

// Where a call was recorded, its tensors stand for the guess that each call takes what the one before it returned.
struct Flow {
  Tensors inputs = {.requiring_grad = 1, .reached = 1};
  Tensors outputs = {.requiring_grad = 1, .reached = 1};

  bool operator==(const Flow&) const = default;
};

struct Call {
  Module* module = nullptr;  // null: no call, the module around it reads `read`, a weight that is not its own
  std::vector<Call> children = {};  // what its forward calls after using its own weights
  Checkpointing checkpointing = Checkpointing::kNone;
  bool detach_input = false;      // its input requires no grad
  bool discard_output = false;    // nobody uses what it returns
  std::optional<Flow> flow = {};  // of a recorded call; then so of all calls of the forward
  Param* read = nullptr;
};

}  // namespace zero3
