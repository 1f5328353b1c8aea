// The JSON form of small nested models, as in tests/golden/nested: {"model": {"root": {"p": [64], "c": ["A"]}, ...},
// "shared": [["B", "a"]], "frozen": ["a.p0"]}.
#pragma once

#include <string>

#include "sim/program.h"
#include "sim/short_form.h"

namespace zero3::sim {

// `p`: element counts of a module's own params p0, p1, ...; `c`: its children in registration order. Throws BadInput
// with line and column under the name `source`. Keys beside model, shared and frozen are refused, but for those that
// the recorded blocks carry ("cfg", "s"), which are ignored.
ModelSpec parse_nested_model(const std::string& json, const std::string& source);

// A program over such a model.
Experiment nested_experiment(ModelSpec model, std::string_view program, const ShortFormOptions& options,
                             const std::string& source = "program");

}  // namespace zero3::sim
