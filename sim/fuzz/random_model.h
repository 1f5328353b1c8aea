// A random model for differential fuzzing, and how its modules are called.
//
// Every shape that DeepSpeed's hooks treat on their own comes up: flat Linear models with and without bias; nested
// modules with parameters of their own and children; several parameters of different sizes, empty ones among them;
// shared modules and tied parameters; several outputs; parameters that other modules use, registered or not; frozen
// parameters; leaf modules; checkpointed regions; detached inputs and outputs that nobody uses. Models are small: up
// to 14 modules.
#pragma once

#include <vector>

#include "coordinator/model_spec.h"
#include "coordinator/plan.h"
#include "sim/fuzz/fuzz_target.h"
#include "sim/program.h"
#include "sim/split_mix.h"

namespace zero3::sim {

struct RandomModel {
  // How calls of a module are made.
  struct Habit {
    Checkpointing checkpointing = Checkpointing::kNone;
    bool detach_input = false;
    bool discard_output = false;
  };

  ModelSpec spec;
  std::vector<Habit> habits;  // by index in spec.modules
  bool flat = false;          // Linear children of one root
  int called = 0;             // flat: how many of the children programs call
  bool with_optimizer = true;
};

RandomModel random_model(Draws draws, const FuzzTarget& target);

// Parameters that are their own, not another one's under one more name.
std::vector<ParamRef> own_params(const ModelSpec& model);

// Names every module by its first path from the root, as torch does; names must be without dots.
void qualify_names(ModelSpec& model);

}  // namespace zero3::sim
