// A scenario's program as written: steps with repeats, per-rank branches and seeded choices, before a rank and a seed
// settle them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/scenario/model.h"
#include "sim/scenario/yaml_reader.h"

namespace zero3::sim {

// An Op whose plan may still hold draws.
struct StepOp {
  OpKind kind = OpKind::kForward;
  int engine = 0;
  bool grad_enabled = true;
  Plan plan = {};
  std::vector<ParamRef> params = {};
  int modifier_rank = -1;
  bool overflow = false;
  int module = -1;
};

struct Step;

struct StepBranch {
  int64_t weight = 1;  // of a choice
  std::vector<Step> steps;
};

struct Step {
  enum class Kind {
    kOps,     // ops
    kBlock,   // ops, the first branch, closing_ops: a context manager
    kRepeat,  // the first branch `times` times
    kWhen,    // the first branch where `ranks` and `iterations` hold, else the second
    kChoose,  // one of the branches, as the seed has it
  };
  Kind kind = Kind::kOps;
  std::string text;  // as it was written, shortened
  Place place;
  std::vector<StepOp> ops = {};
  std::vector<StepOp> closing_ops = {};
  std::vector<StepBranch> branches = {};
  int64_t times = 1;
  std::vector<int64_t> ranks = {};       // empty: every rank
  std::vector<int64_t> iterations = {};  // of the nearest repeat, from 1; empty: each
  bool per_rank = false;                 // each rank chooses for itself
};

struct ScenarioEngine {
  std::string name;
  EngineSetup setup;
};

// `ranks`: the scenario's own, for which each branch must be one that some rank takes; it may be run with others.
// Throws BadInput.
std::vector<Step> read_program(const YamlFile& file, const YamlNode& node, const ScenarioModel& model,
                               const std::vector<ScenarioEngine>& engines, const YamlNode* plans, int ranks);

// The statements of one rank. A choice depends on the seed, its place in the program, the iterations around it and, if
// it is made per rank, the rank; on nothing else, so ranks that choose alike agree. `file` shows what is too long.
Program unroll(const std::vector<Step>& steps, const ScenarioModel& model, uint64_t seed, int rank,
               const YamlFile& file);

}  // namespace zero3::sim
