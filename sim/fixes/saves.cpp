#include "sim/fixes/saves.h"

#include <algorithm>
#include <map>

namespace zero3::sim {
namespace {

bool saves(const Op& op) {
  return op.kind == OpKind::kSave16bit || op.kind == OpKind::kConsolidate ||
         op.kind == OpKind::kSaveCheckpoint;
}

// How many contexts the statement opens, less those it closes.
int opened(const Statement& statement) {
  int count = 0;
  for (const Op& op : statement.ops) {
    if (op.kind == OpKind::kGatherEnter || op.kind == OpKind::kUnwrapEnter) ++count;
    if (op.kind == OpKind::kGatherExit || op.kind == OpKind::kUnwrapExit) --count;
  }
  return count;
}

bool has_context(const Statement& statement) {
  return std::ranges::any_of(statement.ops, [](const Op& op) {
    return op.kind == OpKind::kGatherEnter || op.kind == OpKind::kUnwrapEnter;
  });
}

bool evaluates(const Statement& statement) {
  bool forward = false;
  for (const Op& op : statement.ops) {
    const bool runs = op.kind == OpKind::kForward || op.kind == OpKind::kForwardDirect;
    if (runs && op.grad_enabled) return false;
    if (!runs && op.kind != OpKind::kTrain && op.kind != OpKind::kEval) return false;
    forward = forward || runs;
  }
  return forward;
}

// What an engine has under way.
struct Pending {
  bool forward = false;
  bool backward = false;
  int64_t micro_steps = 0;
};

}  // namespace

std::vector<StatementRange> saves_of(const Program& program) {
  std::vector<StatementRange> ranges;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < program.size(); ++i) {
    const Statement& statement = program[i];
    if (depth == 0) begin = i;
    const bool context = depth > 0 || has_context(statement);
    depth += opened(statement);
    if (context ? depth == 0 : !statement.ops.empty() && std::ranges::all_of(statement.ops, saves))
      ranges.push_back({begin, i + 1});
  }
  return ranges;
}

std::vector<StatementRange> evaluations_of(const Program& program) {
  std::vector<StatementRange> ranges;
  for (size_t i = 0; i < program.size(); ++i) {
    if (evaluates(program[i])) ranges.push_back({i, i + 1});
  }
  return ranges;
}

std::vector<bool> places_outside(const Program& program) {
  std::vector<bool> places = {true};
  int depth = 0;
  for (const Statement& statement : program) {
    depth += opened(statement);
    places.push_back(depth == 0);
  }
  return places;
}

std::vector<bool> places_after_steps(const Program& program, int accumulation_steps) {
  std::vector<bool> places = places_outside(program);
  std::map<int, Pending> engines;
  for (size_t i = 0; i < program.size(); ++i) {
    for (const Op& op : program[i].ops) {
      Pending& engine = engines[op.engine];
      if (op.kind == OpKind::kForward || op.kind == OpKind::kForwardDirect)
        engine.forward = engine.forward || op.grad_enabled;
      if (op.kind == OpKind::kBackward) {
        engine.forward = false;
        engine.backward = true;
      }
      if (op.kind == OpKind::kStep) {
        engine.backward = false;
        ++engine.micro_steps;
      }
    }
    const bool done = std::ranges::none_of(engines, [accumulation_steps](const auto& one) {
      const Pending& engine = one.second;
      return engine.forward || engine.backward || engine.micro_steps % accumulation_steps != 0;
    });
    places[i + 1] = places[i + 1] && done;
  }
  return places;
}

Program moved(const Program& program, const StatementRange& range, size_t place) {
  const auto at = [&program](size_t index) { return program.begin() + static_cast<std::ptrdiff_t>(index); };
  const Program taken(at(range.begin), at(range.end));
  Program rest(program.begin(), at(range.begin));
  rest.insert(rest.end(), at(range.end), program.end());
  const size_t target = place <= range.begin ? place : place - taken.size();
  rest.insert(rest.begin() + static_cast<std::ptrdiff_t>(target), taken.begin(), taken.end());
  return rest;
}

}  // namespace zero3::sim
