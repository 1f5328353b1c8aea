// Small scenario files for tests, and what is said of a wrong one.
#pragma once

#include <string>

#include "sim/bad_input.h"
#include "sim/scenario/scenario.h"

namespace zero3::sim {

// Three layers; the program and whatever else are added to it.
inline const std::string kThreeLayers =
    "zero3sim: 1\n"
    "model: {children: {fc1: \"Linear(4, 4)\", act: ReLU, fc2: \"Linear(4, 2)\"}}\n";

inline Scenario scenario(const std::string& text) { return parse_scenario("x.yaml", text); }

// The whole message; "" if the file is right.
inline std::string error_of(const std::string& text) {
  try {
    scenario(text).experiment();
  } catch (const BadInput& error) {
    return error.what();
  }
  return "";
}

// The calls of a plan by name: "fc1 block[attn mlp]".
inline std::string names_of(const std::vector<PlannedCall>& plan, const ModelSpec& model) {
  std::string names;
  for (const PlannedCall& call : plan) {
    names += (names.empty() ? "" : " ") + model.modules[static_cast<size_t>(call.module)].name;
    if (!call.children.empty()) names += "[" + names_of(call.children, model) + "]";
  }
  return names;
}

// What each forward of one rank calls, a line each.
inline std::string forwards_of(const Experiment& experiment, size_t rank = 0) {
  std::string lines;
  for (const Statement& statement : experiment.rank_programs[rank]) {
    for (const Op& op : statement.ops) {
      if (op.kind == OpKind::kForward || op.kind == OpKind::kForwardDirect) {
        lines += names_of(op.plan, experiment.model) + "\n";
      }
    }
  }
  return lines;
}

// The kinds of operations of one rank, in order.
inline std::vector<OpKind> kinds_of(const Experiment& experiment, size_t rank = 0) {
  std::vector<OpKind> kinds;
  for (const Statement& statement : experiment.rank_programs[rank]) {
    for (const Op& op : statement.ops) kinds.push_back(op.kind);
  }
  return kinds;
}

}  // namespace zero3::sim
