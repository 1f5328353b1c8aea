#include "sim/fixes/baseline.h"

#include <algorithm>

#include "sim/fixes/branches.h"
#include "sim/fixes/saves.h"

namespace zero3::sim {
namespace {

int64_t forwards_in(const Program& program) {
  int64_t count = 0;
  for (const Statement& statement : program) {
    count += std::ranges::count_if(statement.ops, [](const Op& op) {
      return op.kind == OpKind::kForward || op.kind == OpKind::kForwardDirect;
    });
  }
  return count;
}

Experiment without_saves(const Experiment& experiment) {
  Experiment changed = experiment;
  for (Program& program : changed.rank_programs) {
    const std::vector<StatementRange> saves = saves_of(program);
    for (auto save = saves.rbegin(); save != saves.rend(); ++save) {
      program.erase(program.begin() + static_cast<std::ptrdiff_t>(save->begin),
                    program.begin() + static_cast<std::ptrdiff_t>(save->end));
    }
  }
  return changed;
}

}  // namespace

std::optional<Measure> measure_of(const Outcome& outcome, const Experiment& experiment, bool by_forward) {
  if (outcome.audits.empty()) return std::nullopt;
  const RankAudit& audit = outcome.audits.front();
  const Usage& usage = audit.usage;
  const int64_t times = by_forward ? forwards_in(experiment.rank_programs[static_cast<size_t>(audit.rank)])
                                   : usage.optimizer_steps;
  if (times == 0) return std::nullopt;
  const auto each = [times](int64_t count) {
    return static_cast<double>(count) / static_cast<double>(times);
  };
  return Measure{each(usage.all_gathers), each(usage.exposed_all_gathers), each(usage.gathered_numel),
                 usage.peak_live_numel};
}

std::optional<FixBaseline> find_baseline(const Experiment& experiment, const Outcome& outcome,
                                         const Release& release, uint64_t seed) {
  const auto baseline = [&](const char* what, const Experiment& program,
                            const Outcome& end) -> std::optional<FixBaseline> {
    if (end.end != End::kCompletes) return std::nullopt;
    const bool by_forward = !measure_of(end, program, false);
    const std::optional<Measure> measure = measure_of(end, program, by_forward);
    if (!measure) return std::nullopt;
    return FixBaseline{what, by_forward, *measure};
  };
  if (auto found = baseline("the program as it is", experiment, outcome)) return found;
  const Experiment whole = without_branches(experiment);
  if (auto found = baseline("the same program with nothing left out", whole,
                            outcome_of(whole, release, {.seed = seed})))
    return found;
  const Experiment bare = without_saves(whole);
  return baseline("the same program with nothing left out and no saves", bare,
                  outcome_of(bare, release, {.seed = seed}));
}

}  // namespace zero3::sim
