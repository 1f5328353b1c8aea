// What one forward calls: a tree of module calls, in order.
#pragma once

#include <vector>

#include "coordinator/model.h"

namespace zero3 {

enum class Checkpointing {
  kNone,
  kReentrant,       // torch.utils.checkpoint(..., use_reentrant=True)
  kNonReentrant,    // use_reentrant=False, with torch 2.1's early stop of the recomputation
  kWholeRecompute,  // use_reentrant=False before torch 2.1: recomputes the whole region
};

struct Call {
  Module* module = nullptr;
  std::vector<Call> children = {};  // what its forward calls after using its own weights
  Checkpointing checkpointing = Checkpointing::kNone;
  bool detach_input = false;    // its input requires no grad
  bool discard_output = false;  // nobody uses what it returns
};

}  // namespace zero3
