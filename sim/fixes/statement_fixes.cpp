// Changes of a program that put statements into it or move them.
#include <algorithm>
#include <utility>

#include "sim/fixes/branches.h"
#include "sim/fixes/program_fixes.h"
#include "sim/fixes/saves.h"

namespace zero3::sim {
namespace {

// Statements put before others, as `before` has it: told of the statement and its index.
template <class Before>
std::optional<Experiment> with_statements(const Experiment& experiment, Before before) {
  Experiment changed = experiment;
  bool any = false;
  for (Program& program : changed.rank_programs) {
    Program made;
    for (size_t i = 0; i < program.size(); ++i) {
      for (Statement& added : before(std::as_const(program), i)) {
        made.push_back(std::move(added));
        any = true;
      }
      made.push_back(program[i]);
    }
    program = std::move(made);
  }
  if (!any) return std::nullopt;
  return changed;
}

Statement empty_cache(int engine) {
  return {"empty_partition_cache", {}, {{.kind = OpKind::kEmptyPartitionCache, .engine = engine}}};
}

bool begins_save(const Program& program, size_t index) {
  const std::vector<StatementRange> saves = saves_of(program);
  return std::ranges::find(saves, index, &StatementRange::begin) != saves.end();
}

// Of each engine that an op of one of these kinds in the statement is of.
std::vector<Statement> caches_emptied(const Statement& statement, std::initializer_list<OpKind> kinds) {
  std::vector<int> engines;
  for (const Op& op : statement.ops) {
    const bool asked = std::ranges::find(kinds, op.kind) != kinds.end();
    if (asked && std::ranges::find(engines, op.engine) == engines.end()) engines.push_back(op.engine);
  }
  std::vector<Statement> added;
  for (const int engine : engines) added.push_back(empty_cache(engine));
  return added;
}

bool in_evaluation_mode(const Program& program, size_t index, int engine) {
  bool evaluating = false;
  for (size_t i = 0; i < index; ++i) {
    for (const Op& op : program[i].ops) {
      if (op.engine != engine || op.module >= 0) continue;
      if (op.kind == OpKind::kEval) evaluating = true;
      if (op.kind == OpKind::kTrain) evaluating = false;
    }
  }
  return evaluating;
}

// An evaluation before the statement; the mode is afterwards what it was.
Statement whole_evaluation(const Program& program, size_t index, int engine, const Calls& whole) {
  Statement statement{"evaluate: everything", {}, {}};
  statement.ops.push_back({.kind = OpKind::kForward, .engine = engine, .grad_enabled = false, .plan = whole});
  if (in_evaluation_mode(program, index, engine)) return statement;
  statement.ops.insert(statement.ops.begin(), {.kind = OpKind::kEval, .engine = engine});
  statement.ops.push_back({.kind = OpKind::kTrain, .engine = engine});
  return statement;
}

// Each range, as `ranges_of` has them, at the place that `place_of` chooses for it; one that has none stays.
template <class Ranges, class PlaceOf>
std::optional<Experiment> with_moved(const Experiment& experiment, Ranges ranges_of, PlaceOf place_of) {
  Experiment changed = experiment;
  for (Program& program : changed.rank_programs) {
    // One at a time: places are counted anew. What was moved once is where it belongs.
    const size_t count = ranges_of(program).size();
    for (size_t moves = 0; moves < count; ++moves) {
      bool any = false;
      for (const StatementRange& range : ranges_of(program)) {
        const std::optional<size_t> place = place_of(std::as_const(program), range);
        if (!place) continue;
        program = moved(program, range, *place);
        any = true;
        break;
      }
      if (!any) break;
    }
  }
  if (changed.rank_programs == experiment.rank_programs) return std::nullopt;
  return changed;
}

// The program without the range: places are asked of that, for what is moved does not count.
Program without(const Program& program, const StatementRange& range) {
  Program rest(program.begin(), program.begin() + static_cast<std::ptrdiff_t>(range.begin));
  rest.insert(rest.end(), program.begin() + static_cast<std::ptrdiff_t>(range.end), program.end());
  return rest;
}

// The next place behind the range after a step, or the last one before it; nothing where it stands at one.
std::optional<size_t> place_after_step(const Experiment& experiment, const Program& program,
                                       const StatementRange& range, bool behind) {
  const std::vector<bool> places =
      places_after_steps(without(program, range), experiment.settings.gradient_accumulation_steps);
  if (places[range.begin]) return std::nullopt;
  if (behind) {
    for (size_t place = range.begin + 1; place < places.size(); ++place) {
      if (places[place]) return place + (range.end - range.begin);
    }
    return std::nullopt;
  }
  for (size_t place = range.begin; place-- > 0;) {
    if (places[place]) return place;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Experiment> empty_cache_before_saves(const Experiment& experiment) {
  return with_statements(experiment, [](const Program& program, size_t index) {
    std::vector<Statement> added;
    if (begins_save(program, index)) added.push_back(empty_cache(program[index].ops.front().engine));
    return added;
  });
}

std::optional<Experiment> empty_cache_before_steps(const Experiment& experiment) {
  Experiment changed = experiment;
  bool any = false;
  for (Program& program : changed.rank_programs) {
    for (Statement& statement : program) {
      for (size_t i = 0; i < statement.ops.size(); ++i) {
        if (statement.ops[i].kind != OpKind::kStep) continue;
        const Op emptied{.kind = OpKind::kEmptyPartitionCache, .engine = statement.ops[i].engine};
        statement.ops.insert(statement.ops.begin() + static_cast<std::ptrdiff_t>(i++), emptied);
        any = true;
      }
    }
  }
  if (!any) return std::nullopt;
  return changed;
}

std::optional<Experiment> empty_cache_before_forwards(const Experiment& experiment) {
  return with_statements(experiment, [](const Program& program, size_t index) {
    return caches_emptied(program[index], {OpKind::kForward, OpKind::kForwardDirect});
  });
}

std::optional<Experiment> reload_states_before_use(const Experiment& experiment) {
  bool offloaded = false;
  return with_statements(experiment, [&offloaded](const Program& program, size_t index) {
    std::vector<Statement> added;
    if (index == 0) offloaded = false;
    for (const Op& op : program[index].ops) {
      if (op.kind == OpKind::kReloadStates) offloaded = false;
      const bool uses = op.kind != OpKind::kOffloadStates && op.kind != OpKind::kReloadStates;
      if (offloaded && uses) {
        added.push_back({"reload_states", {}, {{.kind = OpKind::kReloadStates, .engine = op.engine}}});
        offloaded = false;
      }
      if (op.kind == OpKind::kOffloadStates) offloaded = true;
    }
    return added;
  });
}

std::optional<Experiment> saves_after_step(const Experiment& experiment) {
  return with_moved(experiment, saves_of, [&](const Program& program, const StatementRange& range) {
    return place_after_step(experiment, program, range, true);
  });
}

std::optional<Experiment> saves_before_step(const Experiment& experiment) {
  return with_moved(experiment, saves_of, [&](const Program& program, const StatementRange& range) {
    return place_after_step(experiment, program, range, false);
  });
}

std::optional<Experiment> saves_before_evaluation(const Experiment& experiment) {
  return with_moved(experiment, saves_of, [](const Program& program, const StatementRange& range) {
    const std::vector<StatementRange> evaluations = evaluations_of(program);
    size_t place = range.begin;
    while (place > 0 &&
           std::ranges::find(evaluations, place - 1, &StatementRange::begin) != evaluations.end())
      --place;
    return place == range.begin ? std::nullopt : std::optional(place);
  });
}

std::optional<Experiment> evaluations_after_step(const Experiment& experiment) {
  return with_moved(experiment, evaluations_of, [&](const Program& program, const StatementRange& range) {
    return place_after_step(experiment, program, range, true);
  });
}

std::optional<Experiment> prologue_before_branches(const Experiment& experiment) {
  const std::vector<ForwardBranch> branches = branches_of(experiment);
  return with_statements(experiment, [&branches](const Program& program, size_t index) {
    std::vector<Statement> added;
    for (const Op& op : program[index].ops) {
      if (op.kind != OpKind::kForward) continue;
      for (const ForwardBranch& branch : branches) {
        if (branch.engine == op.engine && branch.plan == op.plan)
          added.push_back(whole_evaluation(program, index, op.engine, branch.whole));
      }
    }
    return added;
  });
}

std::optional<Experiment> prologue_before_saves(const Experiment& experiment) {
  const Experiment whole = without_branches(experiment);
  const Op* forward = nullptr;
  for (const Statement& statement : whole.rank_programs.front()) {
    for (const Op& op : statement.ops) {
      if (op.kind == OpKind::kForward && forward == nullptr) forward = &op;
    }
  }
  if (forward == nullptr) return std::nullopt;
  return with_statements(experiment, [forward](const Program& program, size_t index) {
    std::vector<Statement> added;
    if (begins_save(program, index))
      added.push_back(whole_evaluation(program, index, forward->engine, forward->plan));
    return added;
  });
}

}  // namespace zero3::sim
