// What is to be run: a model, its settings, and a program for each rank. Everything is by index into the model's spec;
// parsers (scenario files, the short form) make it, RankRunner runs it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "coordinator/model_spec.h"
#include "coordinator/plan.h"
#include "coordinator/settings.h"

namespace zero3::sim {

// Where something was written, 1-based; line 0: nowhere.
struct Place {
  int line = 0;
  int column = 0;

  bool operator==(const Place&) const = default;
};

struct ParamRef {
  int module = 0;
  int param = 0;

  bool operator==(const ParamRef&) const = default;
};

// One module call of a forward, by module index. In recorded forwards also what has no module, kNoModule: with `read` a
// weight that the module around it reads, with `checkpointing` a region, and where its recomputation stops.
struct PlannedCall {
  static constexpr int kNoModule = -1;

  int module = 0;
  std::vector<PlannedCall> children = {};
  Checkpointing checkpointing = Checkpointing::kNone;
  bool detach_input = false;
  bool discard_output = false;
  std::optional<Flow> flow = {};
  std::optional<ParamRef> read = {};
  bool stops = false;

  bool is_region() const { return module == kNoModule && checkpointing != Checkpointing::kNone; }
  bool operator==(const PlannedCall&) const = default;
};

enum class OpKind {
  kForward,        // the engine's model: plan = what the root calls
  kForwardDirect,  // plan = modules called without the root
  kBackward,
  kStep,
  kTrain,  // engine.train(), or of a module
  kEval,   // engine.eval()
  kSave16bit,
  kConsolidate,  // _zero3_consolidated_16bit_state_dict
  kSaveCheckpoint,
  kLoadCheckpoint,
  kEmptyPartitionCache,
  kOffloadStates,
  kReloadStates,
  kGatherEnter,  // with GatheredParameters(params, modifier_rank):
  kGatherExit,
  kUnwrapEnter,  // with unwrap_model_for_generation(engine):
  kUnwrapExit,
  kRegisterHooksAgain,
};

struct Op {
  OpKind kind = OpKind::kForward;
  int engine = 0;
  bool grad_enabled = true;
  std::vector<PlannedCall> plan = {};
  std::optional<Flow> root_flow = {};  // of a recorded forward
  std::vector<ParamRef> params = {};
  int modifier_rank = -1;  // -1: None
  bool overflow = false;   // a step whose gradients overflowed: skipped by the optimizer
  int module = -1;         // of train and eval, index in the model: that module's alone; -1: the engine's

  bool operator==(const Op&) const = default;
};

// One step of the program as its author wrote it: a token of the short form, an item of a scenario's program.
struct Statement {
  std::string text;
  Place place;
  std::vector<Op> ops;

  bool operator==(const Statement&) const = default;
};

using Program = std::vector<Statement>;

struct EngineSetup {
  int root = 0;  // module index
  bool with_optimizer = true;

  bool operator==(const EngineSetup&) const = default;
};

struct Experiment {
  ModelSpec model;
  Settings settings;
  bool input_requires_grad = true;
  std::vector<EngineSetup> engines = {EngineSetup{}};
  std::vector<Program> rank_programs = {};  // one a rank; their number is the world size
  // The name that each module calls a child by, parallel to ModuleSpec::children; the coordinator asks for none, real
  // models are built with them. Empty: default_child_names, which holds unless a shared module has several names.
  std::vector<std::vector<std::string>> child_names = {};

  bool operator==(const Experiment&) const = default;
};

// The last part of each child's qualified name; where a module calls two by the same name, "_2" and so on is added.
std::vector<std::vector<std::string>> default_child_names(const ModelSpec& model);

}  // namespace zero3::sim
