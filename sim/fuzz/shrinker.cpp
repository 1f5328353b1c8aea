#include "sim/fuzz/shrinker.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/fuzz/random_plan.h"
#include "sim/fuzz/reduction.h"

namespace zero3::sim {
namespace {

using Calls = std::vector<PlannedCall>;

// What a setting is where it does not matter: the short form's own.
Settings plain_settings() {
  Settings plain;
  plain.prefetch_bucket_numel = 100;
  plain.max_live_numel = 1'000'000;
  plain.max_reuse_distance_numel = 0;
  plain.param_persistence_threshold_numel = 0;
  plain.gather_16bit_weights_on_model_save = true;
  return plain;
}

size_t calls_in(const Calls& plan) {
  size_t count = 0;
  for (const PlannedCall& call : plan) count += 1 + calls_in(call.children);
  return count;
}

// Call number `index` of a plan, counted before its children.
struct Position {
  Calls* list = nullptr;
  size_t at = 0;
};
Position find_call(Calls& plan, size_t& index) {
  for (size_t i = 0; i < plan.size(); ++i) {
    if (index == 0) return {&plan, i};
    --index;
    const Position below = find_call(plan[i].children, index);
    if (below.list != nullptr) return below;
  }
  return {};
}

class Shrinker {
 public:
  Shrinker(Experiment start, const StillDoes& still_does, size_t limit)
      : best_(std::move(start)), still_does_(still_does), limit_(limit) {}

  Shrunk run() {
    for (bool changed = true; changed && !spent_;) {
      changed = false;
      changed |= drop_ranks();
      changed |= drop_statements();
      changed |= drop_modules();
      changed |= drop_ops();
      changed |= drop_params();
      changed |= drop_calls();
      changed |= plain_calls();
      changed |= plain_modules();
      changed |= plain_params();
      changed |= plain_everything_else();
    }
    return {std::move(best_), asked_, !spent_};
  }

 private:
  // Takes the candidate if it still does it.
  bool take(Experiment candidate) {
    if (candidate == best_ || !well_formed(candidate)) return false;
    if (asked_ >= limit_) {
      spent_ = true;
      return false;
    }
    ++asked_;
    retell(candidate);
    if (!still_does_(candidate)) return false;
    best_ = std::move(candidate);
    return true;
  }

  // The best one with a change made to it in place.
  template <typename Change>
  bool take_with(Change change) {
    Experiment candidate = best_;
    change(candidate);
    return take(std::move(candidate));
  }

  // A change to operation `op` of statement `statement` on every rank that has it.
  template <typename Change>
  bool take_with_op(size_t statement, size_t op, Change change) {
    return take_with([&](Experiment& candidate) {
      for (Program& program : candidate.rank_programs) {
        if (statement < program.size() && op < program[statement].ops.size())
          change(program[statement].ops[op]);
      }
    });
  }

  // A statement's text shows its plan: it is told anew, the token before the colon stays.
  static void retell(Experiment& candidate) {
    for (Program& program : candidate.rank_programs) {
      for (Statement& statement : program) {
        for (const Op& op : statement.ops) {
          if (op.kind != OpKind::kForward && op.kind != OpKind::kForwardDirect) continue;
          const std::string token = statement.text.substr(0, statement.text.find(':'));
          statement.text = token + ":" + plan_text(op.plan, candidate.model);
        }
      }
    }
  }

  const Program& program() const {
    return *std::ranges::max_element(best_.rank_programs, {}, [](const Program& one) { return one.size(); });
  }

  bool drop_ranks() {
    if (best_.rank_programs.size() < 2) return false;
    const auto down_to = [](std::vector<Program> programs) {
      return [programs](Experiment& candidate) {
        candidate.rank_programs = programs;
        const int ranks = static_cast<int>(programs.size());
        for (Program& program : candidate.rank_programs) {
          for (Statement& statement : program) {
            for (Op& op : statement.ops) op.modifier_rank = std::min(op.modifier_rank, ranks - 1);
          }
        }
      };
    };
    bool changed = take_with(down_to({best_.rank_programs.front()}));
    for (size_t i = best_.rank_programs.size(); i-- > 0 && best_.rank_programs.size() > 1;) {
      std::vector<Program> left = best_.rank_programs;
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(i));
      changed |= take_with(down_to(left));
    }
    return changed;
  }

  // Halves, quarters, ... single statements, from the end: what comes after the difference goes first.
  bool drop_statements() {
    bool changed = false;
    for (size_t size = std::max<size_t>(program().size() / 2, 1);; size /= 2) {
      for (size_t end = program().size(); end > 0 && !spent_;) {
        const size_t first = end - std::min(end, size);
        changed |= take(without_statements(best_, first, end));
        end = std::min(first, program().size());
      }
      if (size == 1) return changed;
    }
  }

  bool drop_ops() {
    bool changed = false;
    for (size_t i = program().size(); i-- > 0 && !spent_;) {
      for (size_t k = i < program().size() ? program()[i].ops.size() : 0; k-- > 0;)
        changed |= take(without_op(best_, i, k));
    }
    return changed;
  }

  // With all that hangs from it, else the module alone.
  bool drop_modules() {
    bool changed = false;
    for (size_t i = best_.model.modules.size(); i-- > 1 && !spent_;) {
      if (i >= best_.model.modules.size()) continue;
      std::set<int> all;
      for (size_t k = 0; k < best_.model.modules.size(); ++k) all.insert(static_cast<int>(k));
      std::set<int> without_subtree = all;
      for (const int below : only_below(best_.model, static_cast<int>(i))) without_subtree.erase(below);
      std::set<int> without_module = all;
      without_module.erase(static_cast<int>(i));
      const bool dropped = without_subtree.contains(0) && take(with_modules(best_, without_subtree));
      changed |= dropped || take(with_modules(best_, without_module));
    }
    return changed;
  }

  bool drop_params() {
    bool changed = false;
    for (size_t i = best_.model.modules.size(); i-- > 0 && !spent_;) {
      for (size_t k = best_.model.modules[i].params.size(); k-- > 0;)
        changed |= take(without_param(best_, {static_cast<int>(i), static_cast<int>(k)}));
    }
    return changed;
  }

  // Every call of every plan: without it, else its children in its place.
  bool drop_calls() {
    bool changed = false;
    for (size_t i = program().size(); i-- > 0 && !spent_;) {
      for (size_t k = program()[i].ops.size(); k-- > 0;) {
        for (size_t call = calls_in(program()[i].ops[k].plan); call-- > 0;) changed |= drop_call(i, k, call);
      }
    }
    return changed;
  }

  bool drop_call(size_t statement, size_t op, size_t call) {
    const auto without = [call](bool keep_children) {
      return [call, keep_children](Op& changed) {
        size_t index = call;
        const Position position = find_call(changed.plan, index);
        if (position.list == nullptr) return;
        const auto at = position.list->begin() + static_cast<std::ptrdiff_t>(position.at);
        const Calls children = keep_children ? at->children : Calls{};
        const auto after = position.list->erase(at);
        position.list->insert(after, children.begin(), children.end());
      };
    };
    return take_with_op(statement, op, without(false)) || take_with_op(statement, op, without(true));
  }

  bool plain_calls() {
    bool changed = false;
    for (size_t i = 0; i < program().size() && !spent_; ++i) {
      for (size_t k = 0; k < program()[i].ops.size(); ++k) {
        for (size_t call = 0; call < calls_in(program()[i].ops[k].plan); ++call)
          changed |= plain_call(i, k, call);
        changed |= take_with_op(i, k, [](Op& op) { op.overflow = false; });
        changed |= take_with_op(i, k, [](Op& op) { op.modifier_rank = -1; });
        while (program()[i].ops[k].params.size() > 1 && drop_gathered(i, k)) changed = true;
      }
    }
    return changed;
  }

  bool drop_gathered(size_t statement, size_t op) {
    for (size_t i = program()[statement].ops[op].params.size(); i-- > 0;) {
      if (take_with_op(statement, op, [i](Op& changed) {
            changed.params.erase(changed.params.begin() + static_cast<std::ptrdiff_t>(i));
          }))
        return true;
    }
    return false;
  }

  bool plain_call(size_t statement, size_t op, size_t call) {
    const auto change = [&](auto make_plain) {
      return take_with_op(statement, op, [&](Op& changed) {
        size_t index = call;
        const Position position = find_call(changed.plan, index);
        if (position.list != nullptr) make_plain((*position.list)[position.at]);
      });
    };
    bool changed = change([](PlannedCall& made) { made.checkpointing = Checkpointing::kNone; });
    changed |= change([](PlannedCall& made) { made.detach_input = false; });
    changed |= change([](PlannedCall& made) { made.discard_output = false; });
    return changed;
  }

  bool plain_modules() {
    bool changed = false;
    for (size_t i = 0; i < best_.model.modules.size() && !spent_; ++i) {
      const auto change = [&](auto make_plain) {
        return take_with([&](Experiment& candidate) { make_plain(candidate.model.modules[i]); });
      };
      changed |= change([](ModuleSpec& module) { module.leaf = false; });
      changed |= change([](ModuleSpec& module) { module.outputs = 1; });
      for (size_t k = best_.model.modules[i].externals.size(); k-- > 0;) {
        changed |= change([k](ModuleSpec& module) {
          module.externals.erase(module.externals.begin() + static_cast<std::ptrdiff_t>(k));
        });
      }
      for (size_t k = best_.model.modules[i].children.size(); k-- > 0;) changed |= drop_second_parent(i, k);
    }
    return changed;
  }

  // A shared module is taken from one of its parents.
  bool drop_second_parent(size_t parent, size_t child) {
    const int shared = best_.model.modules[parent].children[child];
    int parents = 0;
    for (const ModuleSpec& module : best_.model.modules) {
      parents += static_cast<int>(std::ranges::count(module.children, shared));
    }
    if (parents < 2) return false;
    return take_with([&](Experiment& candidate) {
      auto& children = candidate.model.modules[parent].children;
      children.erase(children.begin() + static_cast<std::ptrdiff_t>(child));
      std::set<int> all;
      for (size_t k = 0; k < candidate.model.modules.size(); ++k) all.insert(static_cast<int>(k));
      candidate = with_modules(candidate, all);  // names are by the first path
    });
  }

  bool plain_params() {
    bool changed = false;
    for (size_t i = 0; i < best_.model.modules.size() && !spent_; ++i) {
      for (size_t k = 0; k < best_.model.modules[i].params.size(); ++k) {
        const auto change = [&](auto make_plain) {
          return take_with([&](Experiment& candidate) { make_plain(candidate.model.modules[i].params[k]); });
        };
        changed |= change([](ParamSpec& param) { param.tied_module = param.tied_param = -1; });
        if (best_.model.modules[i].params[k].tied_module >= 0) continue;
        changed |= change([](ParamSpec& param) { param.requires_grad = true; });
        changed |= shrink_param(i, k);
      }
    }
    return changed;
  }

  // To one of the sizes that are easy to read, the same for as many as possible. A Linear's say how it computes.
  bool shrink_param(size_t module, size_t param) {
    if (best_.model.modules[module].type == "Linear") return false;
    static const auto kShapes = std::to_array<std::vector<int64_t>>({{64}, {8}, {16}, {1}});
    for (const std::vector<int64_t>& shape : kShapes) {
      if (best_.model.modules[module].params[param].shape == shape) return false;
      const bool taken = take_with([&](Experiment& candidate) {
        candidate.model.modules[module].params[param].shape = shape;
        for (ModuleSpec& other : candidate.model.modules) {
          for (ParamSpec& tied : other.params) {
            if (tied.tied_module == static_cast<int>(module) && tied.tied_param == static_cast<int>(param))
              tied.shape = shape;
          }
        }
      });
      if (taken) return true;
    }
    return false;
  }

  bool plain_everything_else() {
    const Settings plain = plain_settings();
    const auto plainly = [&](auto member) {
      return take_with([&](Experiment& candidate) { candidate.settings.*member = plain.*member; });
    };
    bool changed = plainly(&Settings::gradient_accumulation_steps);
    changed |= plainly(&Settings::max_live_numel);
    changed |= plainly(&Settings::max_reuse_distance_numel);
    changed |= plainly(&Settings::param_persistence_threshold_numel);
    changed |= plainly(&Settings::model_persistence_threshold_numel);
    changed |= plainly(&Settings::prefetch_bucket_numel);
    changed |= plainly(&Settings::log_trace_cache_warnings);
    changed |= plainly(&Settings::gather_16bit_weights_on_model_save);
    changed |= plainly(&Settings::allgather_sequential);
    changed |= plainly(&Settings::fp16);
    changed |= plainly(&Settings::gradient_clipping);
    changed |= take_with([](Experiment& candidate) { candidate.input_requires_grad = true; });
    for (size_t i = 0; i < best_.engines.size(); ++i)
      changed |= take_with([i](Experiment& candidate) { candidate.engines[i].with_optimizer = true; });
    return changed;
  }

  Experiment best_;
  const StillDoes& still_does_;
  size_t limit_;
  size_t asked_ = 0;
  bool spent_ = false;
};

}  // namespace

Shrunk shrink(const Experiment& experiment, const StillDoes& still_does, size_t limit) {
  return Shrinker(experiment, still_does, limit).run();
}

}  // namespace zero3::sim
