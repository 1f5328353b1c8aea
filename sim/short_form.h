// The short form: a model of Linear children A to Z and a program of tokens, as in "t:ABC t:ABC t:AC".
//
// It reads text and gives an Experiment; no files, no environment. Tokens (docs/short-form.md says what each does):
// t to tb f b s so F e eo E w c l x g gm r u sd sub os rs T. A plan names modules in the order called, "A[ab]c": A
// calls a and b.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/program.h"

namespace zero3::sim {

struct ShortFormOptions {
  int gradient_accumulation_steps = 1;
  int64_t max_reuse_distance_numel = 0;
  int64_t prefetch_bucket_numel = 100;
  int64_t max_live_numel = 1'000'000;
  int64_t param_persistence_threshold_numel = 0;
  bool input_requires_grad = true;
  bool log_trace_cache_warnings = false;
  std::string dup;  // a module also registered under a second, never-called parent; empty: none
  bool with_optimizer = true;
  int ranks = 1;
};

// The model of a program: Linear children A to F of 8x8 without bias, or as far as the program's last letter.
// Throws BadInput with the token's column, under the name `source`.
Experiment parse_short_form(std::string_view program, const ShortFormOptions& options,
                            const std::string& source = "program");

// Tokens over a given model, whose modules are called by the last part of their names.
Program parse_program(std::string_view program, const ModelSpec& model,
                      const std::string& source = "program");

Settings settings_of(const ShortFormOptions& options);

}  // namespace zero3::sim
