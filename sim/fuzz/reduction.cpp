#include "sim/fuzz/reduction.h"

#include <algorithm>
#include <map>
#include <utility>

#include "sim/fuzz/random_model.h"

namespace zero3::sim {
namespace {

using Calls = std::vector<PlannedCall>;

bool opens(OpKind kind) { return kind == OpKind::kGatherEnter || kind == OpKind::kUnwrapEnter; }
bool closes(OpKind kind) { return kind == OpKind::kGatherExit || kind == OpKind::kUnwrapExit; }
OpKind closing(OpKind kind) {
  return kind == OpKind::kGatherEnter ? OpKind::kGatherExit : OpKind::kUnwrapExit;
}

// Moves an experiment onto fewer modules and parameters.
class Move {
 public:
  Move(const Experiment& from, std::set<int> kept, std::set<std::pair<int, int>> dropped)
      : from_(from), kept_(std::move(kept)), dropped_(std::move(dropped)) {
    int next = 0;
    for (const int module : kept_) new_module_[module] = next++;
    for (const int module : kept_) {
      int param = 0;
      for (int i = 0; i < static_cast<int>(spec(module).params.size()); ++i) {
        if (!dropped_.contains({module, i})) new_param_[{module, i}] = param++;
      }
    }
  }

  Experiment make() {
    Experiment made = from_;
    made.child_names.clear();
    made.model.modules.clear();
    for (const int module : kept_) made.model.modules.push_back(moved(module));
    requalify(made.model);
    for (EngineSetup& engine : made.engines) {
      const auto root = new_module_.find(engine.root);
      engine.root = root == new_module_.end() ? 0 : root->second;
    }
    for (Program& program : made.rank_programs) {
      for (Statement& statement : program) {
        for (Op& op : statement.ops) {
          op.plan = calls(op.plan);
          std::vector<ParamRef> params;
          for (const ParamRef& param : op.params) {
            if (const ParamRef* found = find(param.module, param.param)) params.push_back(*found);
          }
          op.params = std::move(params);
        }
      }
    }
    return made;
  }

 private:
  const ModuleSpec& spec(int module) const { return from_.model.modules[static_cast<size_t>(module)]; }

  const ParamRef* find(int module, int param) {
    const auto found = new_param_.find({module, param});
    if (found == new_param_.end()) return nullptr;
    found_ = {new_module_.at(module), found->second};
    return &found_;
  }

  void add_children(int module, std::vector<int>& children) {
    for (const int child : spec(module).children) {
      const auto found = new_module_.find(child);
      if (found == new_module_.end()) {
        add_children(child, children);
      } else if (std::ranges::find(children, found->second) == children.end()) {
        children.push_back(found->second);
      }
    }
  }

  ModuleSpec moved(int module) {
    ModuleSpec made = spec(module);
    made.params.clear();
    for (int i = 0; i < static_cast<int>(spec(module).params.size()); ++i) {
      if (dropped_.contains({module, i})) continue;
      ParamSpec param = spec(module).params[static_cast<size_t>(i)];
      if (param.tied_module >= 0) {
        const ParamRef* tied = find(param.tied_module, param.tied_param);
        param.tied_module = tied != nullptr ? tied->module : -1;
        param.tied_param = tied != nullptr ? tied->param : -1;
      }
      made.params.push_back(std::move(param));
    }
    made.children.clear();
    add_children(module, made.children);
    made.externals.clear();
    for (ExternalUse use : spec(module).externals) {
      const ParamRef* used = find(use.module, use.param);
      if (used == nullptr) continue;
      use.module = used->module;
      use.param = used->param;
      made.externals.push_back(use);
    }
    return made;
  }

  static void requalify(ModelSpec& model) {
    for (ModuleSpec& module : model.modules) module.name = module.name.substr(module.name.rfind('.') + 1);
    qualify_names(model);
  }

  Calls calls(const Calls& plan) {
    Calls made;
    for (const PlannedCall& call : plan) {
      const auto module = new_module_.find(call.module);
      if (module == new_module_.end()) {
        std::ranges::move(calls(call.children), std::back_inserter(made));
        continue;
      }
      made.push_back(call);
      made.back().module = module->second;
      made.back().children = calls(call.children);
    }
    return made;
  }

  const Experiment& from_;
  std::set<int> kept_;
  std::set<std::pair<int, int>> dropped_;
  std::map<int, int> new_module_;
  std::map<std::pair<int, int>, int> new_param_;
  ParamRef found_;
};

std::set<int> all_modules(const ModelSpec& model) {
  std::set<int> all;
  for (size_t i = 0; i < model.modules.size(); ++i) all.insert(static_cast<int>(i));
  return all;
}

void reach(const ModelSpec& model, int from, int avoided, std::set<int>& found) {
  if (from == avoided || !found.insert(from).second) return;
  for (const int child : model.modules[static_cast<size_t>(from)].children)
    reach(model, child, avoided, found);
}

// What a program must keep to, told op by op.
class Grammar {
 public:
  explicit Grammar(const Experiment& experiment)
      : open_(experiment.engines.size()), past_(experiment.engines.size()) {}

  bool allows(const Op& op) {
    const auto engine = static_cast<size_t>(op.engine);
    if (engine >= open_.size()) return false;
    Past& past = past_[engine];
    if (op.kind == OpKind::kForward && op.grad_enabled) past.forward = true;
    if (op.kind == OpKind::kSaveCheckpoint) past.saved = true;
    if (op.kind == OpKind::kBackward) return past.forward;
    if (op.kind == OpKind::kLoadCheckpoint) return past.saved;
    if (op.kind == OpKind::kGatherEnter && op.params.empty()) return false;
    if (opens(op.kind)) open_[engine].push_back(op.kind);
    if (!closes(op.kind)) return true;
    if (open_[engine].empty() || closing(open_[engine].back()) != op.kind) return false;
    open_[engine].pop_back();
    return true;
  }

  bool all_closed() const {
    return std::ranges::all_of(open_, [](const std::vector<OpKind>& open) { return open.empty(); });
  }

 private:
  struct Past {
    bool forward = false;
    bool saved = false;
  };
  std::vector<std::vector<OpKind>> open_;
  std::vector<Past> past_;
};

bool has_something_to_train(const Experiment& experiment, const EngineSetup& engine) {
  std::set<int> below;
  reach(experiment.model, engine.root, -1, below);
  return std::ranges::any_of(below, [&](int module) {
    const auto& params = experiment.model.modules[static_cast<size_t>(module)].params;
    return std::ranges::any_of(
        params, [&](const ParamSpec& param) { return param.requires_grad || !engine.with_optimizer; });
  });
}

}  // namespace

Experiment with_modules(const Experiment& experiment, const std::set<int>& kept) {
  return Move(experiment, kept, {}).make();
}

Experiment without_param(const Experiment& experiment, ParamRef param) {
  return Move(experiment, all_modules(experiment.model), {{param.module, param.param}}).make();
}

std::set<int> only_below(const ModelSpec& model, int top) {
  std::set<int> elsewhere;
  reach(model, 0, top, elsewhere);
  std::set<int> below;
  reach(model, top, -1, below);
  std::erase_if(below, [&](int module) { return elsewhere.contains(module); });
  return below;
}

Experiment without_statements(const Experiment& experiment, size_t first, size_t last) {
  Experiment made = experiment;
  for (Program& program : made.rank_programs) {
    const size_t end = std::min(last, program.size());
    if (first < end)
      program.erase(program.begin() + static_cast<std::ptrdiff_t>(first),
                    program.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return made;
}

Experiment without_op(const Experiment& experiment, size_t statement, size_t op) {
  Experiment made = experiment;
  for (Program& program : made.rank_programs) {
    if (statement >= program.size() || op >= program[statement].ops.size()) continue;
    const Op gone = program[statement].ops[op];
    int depth = 0;
    bool found = !opens(gone.kind);
    for (size_t i = statement; i < program.size() && !found; ++i) {
      auto& ops = program[i].ops;
      for (size_t k = i == statement ? op : 0; k < ops.size() && !found; ++k) {
        if (ops[k].engine != gone.engine) continue;
        depth += opens(ops[k].kind) ? 1 : closes(ops[k].kind) ? -1 : 0;
        if (depth > 0) continue;
        found = true;
        ops.erase(ops.begin() + static_cast<std::ptrdiff_t>(k));
      }
    }
    auto& ops = program[statement].ops;
    ops.erase(ops.begin() + static_cast<std::ptrdiff_t>(op));
  }
  for (Program& program : made.rank_programs)
    std::erase_if(program, [](const Statement& left) { return left.ops.empty(); });
  return made;
}

bool well_formed(const Experiment& experiment) {
  for (const EngineSetup& engine : experiment.engines) {
    if (!has_something_to_train(experiment, engine)) return false;
  }
  for (const Program& program : experiment.rank_programs) {
    if (program.empty()) return false;
    Grammar grammar(experiment);
    for (const Statement& statement : program) {
      for (const Op& op : statement.ops) {
        if (!grammar.allows(op)) return false;
      }
    }
    if (!grammar.all_closed()) return false;
  }
  return !experiment.rank_programs.empty();
}

}  // namespace zero3::sim
