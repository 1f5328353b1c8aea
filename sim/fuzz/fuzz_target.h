// What programs are made for: the release, and what its environment decides.
#pragma once

#include "coordinator/release.h"

namespace zero3::sim {

struct FuzzTarget {
  Release release;
  // Whether torch's non-reentrant checkpointing stops its recomputation early (torch 2.1 and later). Without it, such
  // regions are recomputed whole.
  bool early_stop = true;
};

}  // namespace zero3::sim
