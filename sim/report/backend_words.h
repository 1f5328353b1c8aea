// What a rank that waits for ever shows in the end: the texts of PyTorch's process groups when the time-out has passed.
//
// NCCL: the watchdog's line, from torch 2.1 on (before, without NumelIn and NumelOut). gloo: the exception of the
// waiting call. Sequence numbers and milliseconds, which depend on what ran before, are "...".
#pragma once

#include <string>

#include "sim/rank_result.h"

namespace zero3::sim {

// DeepSpeed's default_pg_timeout.
constexpr int kTimeoutMs = 1'800'000;

std::string nccl_text(const Waiting& waiting, int world_size);
// Where sizes differ no time passes: a rank that receives more than it asked for is killed.
std::string gloo_text(const Waiting& waiting);
// Why the collective never completes, and what the library makes of it.
std::string obstacle_text(Obstacle obstacle);

}  // namespace zero3::sim
