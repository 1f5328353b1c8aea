// The JSON form of small nested models, as in tests/golden: {"model": {"root": {"p": [64], "c": ["A"]}, ...},
// "shared": [["B", "a"]], "frozen": ["a.p0"]}, and how its modules are called.
#pragma once

#include <string>
#include <vector>

#include "sim/program.h"
#include "sim/short_form.h"

namespace zero3::sim {

struct NestedModel {
  // How every call of a module is made, by index in the spec.
  struct CallHabit {
    Checkpointing checkpointing = Checkpointing::kNone;
    bool detach_input = false;
    bool discard_output = false;
  };

  ModelSpec model;
  std::vector<CallHabit> habits;
  bool with_optimizer = true;
};

// `model`: module -> `p`, element counts of its own params p0, p1, ..., and `c`, its children in registration order.
// `shared`: [parent, child] pairs registered after everything else. `frozen`: params without requires_grad.
// `leaf`: leaf modules. `outs`: module -> number of output tensors. `external`: [module, param] registered as external
// params; `uses`: the same, but only read in that module's forward. `ckpt`: modules called under activation
// checkpointing, with `ckpt_reentrant` and `ckpt_early_stop` (torch 2.1 and later: the default). `detach`: called on an
// input without grad. `discard`: called for nothing. `no_optimizer`. `cfg`, `s` and `ranks`, which recorded
// blocks carry, are ignored. Throws BadInput with line and column under the name `source`; other keys are refused.
NestedModel parse_nested_model(const std::string& json, const std::string& source);

// A program over such a model.
Experiment nested_experiment(NestedModel nested, std::string_view program, const ShortFormOptions& options,
                             const std::string& source = "program");

}  // namespace zero3::sim
