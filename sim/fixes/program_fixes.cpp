#include "sim/fixes/program_fixes.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "sim/fixes/branches.h"

namespace zero3::sim {
namespace {

// The experiment with every rank's program rewritten; nothing if all stay as they are.
template <class Rewrite>
std::optional<Experiment> rewritten(const Experiment& experiment, Rewrite rewrite) {
  Experiment changed = experiment;
  for (Program& program : changed.rank_programs) program = rewrite(program);
  if (changed.rank_programs == experiment.rank_programs) return std::nullopt;
  return changed;
}

template <class Change>
std::optional<Experiment> ops_changed(const Experiment& experiment, Change change) {
  return rewritten(experiment, [&change](Program program) {
    for (Statement& statement : program) {
      for (Op& op : statement.ops) change(op);
    }
    return program;
  });
}

template <class Change>
void change_calls(Calls& calls, const Change& change) {
  for (PlannedCall& call : calls) {
    change(call);
    change_calls(call.children, change);
  }
}

Op simple(OpKind kind, int engine) { return {.kind = kind, .engine = engine}; }

// The mode of an engine: its own, and whether modules of it are in evaluation mode all the same.
struct Mode {
  bool evaluating = false;
  bool modules_evaluating = false;

  void follow(const Op& op) {
    if (op.kind != OpKind::kTrain && op.kind != OpKind::kEval) return;
    const bool eval = op.kind == OpKind::kEval;
    if (op.module < 0) evaluating = modules_evaluating = eval;
    if (op.module >= 0 && eval) modules_evaluating = true;
  }
};

// Ops put before and after others, as `around` has it: told of the op and the mode of its engine.
template <class Around>
std::optional<Experiment> ops_put_around(const Experiment& experiment, Around around) {
  return rewritten(experiment, [&around](Program program) {
    std::map<int, Mode> modes;
    for (Statement& statement : program) {
      std::vector<Op> ops;
      for (Op& op : statement.ops) {
        Mode& mode = modes[op.engine];
        mode.follow(op);
        const std::pair<std::vector<Op>, std::vector<Op>> added = around(op, mode);
        for (const Op& before : added.first) {
          mode.follow(before);
          ops.push_back(before);
        }
        ops.push_back(std::move(op));
        for (const Op& after : added.second) {
          mode.follow(after);
          ops.push_back(after);
        }
      }
      statement.ops = std::move(ops);
    }
    return program;
  });
}

std::optional<Experiment> checkpointed(const Experiment& experiment, Checkpointing wanted) {
  return ops_changed(experiment, [wanted](Op& op) {
    change_calls(op.plan, [wanted](PlannedCall& call) {
      if (call.checkpointing != Checkpointing::kNone) call.checkpointing = wanted;
    });
  });
}

size_t calls_in(const Calls& calls) {
  size_t count = calls.size();
  for (const PlannedCall& call : calls) count += calls_in(call.children);
  return count;
}

size_t calls_in(const Program& program) {
  size_t count = 0;
  for (const Statement& statement : program) {
    for (const Op& op : statement.ops) count += calls_in(op.plan);
  }
  return count;
}

}  // namespace

std::optional<Experiment> train_before_backward(const Experiment& experiment) {
  return ops_put_around(experiment, [](const Op& op, const Mode& mode) {
    std::pair<std::vector<Op>, std::vector<Op>> added;
    if (op.kind == OpKind::kBackward && mode.modules_evaluating)
      added.first.push_back(simple(OpKind::kTrain, op.engine));
    return added;
  });
}

std::optional<Experiment> eval_around_no_grad(const Experiment& experiment) {
  return ops_put_around(experiment, [](const Op& op, const Mode& mode) {
    std::pair<std::vector<Op>, std::vector<Op>> added;
    if (op.kind == OpKind::kForward && !op.grad_enabled && !mode.evaluating) {
      added.first.push_back(simple(OpKind::kEval, op.engine));
      added.second.push_back(simple(OpKind::kTrain, op.engine));
    }
    return added;
  });
}

std::optional<Experiment> input_requires_grad(const Experiment& experiment) {
  if (experiment.input_requires_grad) return std::nullopt;
  Experiment changed = experiment;
  changed.input_requires_grad = true;
  return changed;
}

std::optional<Experiment> gather_each_once(const Experiment& experiment) {
  return ops_changed(experiment, [](Op& op) {
    std::vector<ParamRef> once;
    for (const ParamRef& param : op.params) {
      if (std::ranges::find(once, param) == once.end()) once.push_back(param);
    }
    op.params = std::move(once);
  });
}

std::optional<Experiment> gather_outside(const Experiment& experiment) {
  return rewritten(experiment, [](Program program) {
    std::vector<Op*> open;  // contexts, outermost first
    std::vector<std::pair<Op*, bool>> closing;
    for (Statement& statement : program) {
      for (Op& op : statement.ops) {
        if (op.kind == OpKind::kGatherEnter) {
          if (!open.empty()) {
            Op& outer = *open.front();
            for (const ParamRef& param : op.params) {
              if (std::ranges::find(outer.params, param) == outer.params.end()) outer.params.push_back(param);
            }
            op.params.clear();
          }
          open.push_back(&op);
        } else if (op.kind == OpKind::kGatherExit && !open.empty()) {
          op.params = open.back()->params;
          open.pop_back();
        }
      }
    }
    const auto empty = [](const Op& op) {
      return (op.kind == OpKind::kGatherEnter || op.kind == OpKind::kGatherExit) && op.params.empty();
    };
    for (Statement& statement : program) std::erase_if(statement.ops, empty);
    std::erase_if(program, [](const Statement& statement) { return statement.ops.empty(); });
    return program;
  });
}

std::optional<Experiment> save_sharded(const Experiment& experiment) {
  return ops_changed(experiment, [](Op& op) {
    if (op.kind == OpKind::kSave16bit) op.kind = OpKind::kSaveCheckpoint;
  });
}

std::optional<Experiment> consolidate_without_optimizer(const Experiment& experiment) {
  return ops_changed(experiment, [&experiment](Op& op) {
    const bool saves = op.kind == OpKind::kSave16bit || op.kind == OpKind::kSaveCheckpoint;
    if (saves && !experiment.engines[static_cast<size_t>(op.engine)].with_optimizer)
      op.kind = OpKind::kConsolidate;
  });
}

std::optional<Experiment> call_through_engine(const Experiment& experiment) {
  return ops_changed(experiment, [](Op& op) {
    if (op.kind == OpKind::kForwardDirect) op.kind = OpKind::kForward;
  });
}

std::optional<Experiment> checkpoint_non_reentrant(const Experiment& experiment) {
  return checkpointed(experiment, Checkpointing::kNonReentrant);
}

std::optional<Experiment> checkpoint_reentrant(const Experiment& experiment) {
  return checkpointed(experiment, Checkpointing::kReentrant);
}

std::optional<Experiment> no_checkpointing(const Experiment& experiment) {
  return checkpointed(experiment, Checkpointing::kNone);
}

std::optional<Experiment> discard_skipped(const Experiment& experiment) {
  const std::vector<ForwardBranch> branches = branches_of(experiment);
  if (branches.empty()) return std::nullopt;
  Experiment changed = experiment;
  for (const ForwardBranch& branch : branches)
    changed = with_plan(changed, branch, with_discarded(branch.plan, branch.whole));
  return changed;
}

std::optional<Experiment> use_skipped(const Experiment& experiment) {
  Experiment changed = without_branches(experiment);
  if (changed.rank_programs == experiment.rank_programs) return std::nullopt;
  return changed;
}

std::optional<Experiment> same_on_every_rank(const Experiment& experiment) {
  const auto more = [](const Program& a, const Program& b) {
    return std::pair(a.size(), calls_in(a)) < std::pair(b.size(), calls_in(b));
  };
  const auto longest = std::ranges::max_element(experiment.rank_programs, more);
  return rewritten(experiment, [longest](const Program&) { return *longest; });
}

}  // namespace zero3::sim
