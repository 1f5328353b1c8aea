// Traces of real DeepSpeed for tests, and the program that they are of.
#pragma once

#include <string>

#include "sim/program.h"
#include "sim/short_form.h"
#include "sim/verify/trace_reader.h"

namespace zero3::sim {

// Recorded by zero3probe on DeepSpeed 0.15.2, torch 2.15.0, Python 3.11.2, 2 ranks: the skipped layer of #5828.
inline constexpr const char* kRealTracePath = "tests/sim/verify/v0.15.2.skipped-layer.jsonl";
inline constexpr const char* kRealProgram = "t:ABC t:ABC t:AC";

inline Experiment real_experiment() {
  ShortFormOptions options;
  options.ranks = 2;
  return parse_short_form(kRealProgram, options);
}

}  // namespace zero3::sim
