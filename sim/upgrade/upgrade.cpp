#include "sim/upgrade/upgrade.h"

#include <algorithm>
#include <iterator>
#include <map>

#include <fmt/format.h>

#include "sim/bad_input.h"

namespace zero3::sim {
namespace {

// Something that is wrong with a run. Two of one kind are the same trouble; the one with more weight is the worse.
struct Trouble {
  int64_t weight = 0;
  std::string words;
  bool bearable = false;  // slower, or more memory
};

// By kind. An earlier failure is worse than a later one of its kind, a consequence worse than the one below it.
std::map<std::string, Trouble> troubles(const Outcome& outcome) {
  std::map<std::string, Trouble> found;
  if (outcome.failure) {
    const EndingFailure& failure = *outcome.failure;
    found[std::string(name(failure.kind))] = {
        -static_cast<int64_t>(failure.statement),
        fmt::format("{} at step {} ({})", name(failure.kind), failure.statement + 1, failure.statement_text)};
  }
  // Before a failure it has told of itself.
  if (outcome.end == End::kWrongData) found["wrong-data"] = {0, "wrong data: " + outcome.wrong_data.front()};
  for (const SilentFault& fault : outcome.silent_faults()) {  // the gravest first
    if (fault.consequence == Consequence::kHarmless) continue;
    found.insert({std::string(name(fault.kind)),
                  Trouble{static_cast<int64_t>(fault.consequence),
                          fmt::format("{} ({})", name(fault.kind), name(fault.consequence)),
                          fault.consequence <= Consequence::kMemory}});
  }
  return found;
}

// Those of `now` that `then` has not, or less grave.
std::vector<std::string> beyond(const std::map<std::string, Trouble>& then,
                                const std::map<std::string, Trouble>& now) {
  std::vector<std::string> words;
  for (const auto& [kind, trouble] : now) {
    const auto known = then.find(kind);
    if (known == then.end() || known->second.weight < trouble.weight) words.push_back(trouble.words);
  }
  return words;
}

// Past a failure, and at no price but time and memory until then.
bool gets_further(const Outcome& from, const Outcome& to, const std::map<std::string, Trouble>& then,
                  const std::map<std::string, Trouble>& now) {
  if (!from.failure || (to.failure && to.failure->statement <= from.failure->statement)) return false;
  return std::ranges::all_of(now, [&](const auto& one) {
    const bool ends_it = to.failure && one.first == name(to.failure->kind);
    return ends_it || one.second.bearable || then.contains(one.first);
  });
}

StepCost cost_of(const Outcome& outcome) {
  StepCost cost;
  for (const RankAudit& audit : outcome.audits) {
    const auto steps = static_cast<double>(std::max<int64_t>(audit.usage.optimizer_steps, 1));
    cost.all_gathers = std::max(cost.all_gathers, static_cast<double>(audit.usage.all_gathers) / steps);
    cost.gathered_numel =
        std::max(cost.gathered_numel, static_cast<double>(audit.usage.gathered_numel) / steps);
    cost.peak_live_numel = std::max(cost.peak_live_numel, audit.usage.peak_live_numel);
  }
  return cost;
}

bool runs_to_its_end(const Outcome& outcome) {
  return outcome.end == End::kCompletes || outcome.end == End::kWrongData;
}

ProgramUpgrade upgraded(const TestedProgram& program, const Release& from, const Release& to) {
  ProgramUpgrade upgrade{.name = program.name,
                         .path = program.path,
                         .ranks = program.ranks(),
                         .seed = program.seed,
                         .partial = program.partial,
                         .from = program.outcome_on(from),
                         .to = program.outcome_on(to),
                         .reproduce_from = program.reproduce(from),
                         .reproduce_to = program.reproduce(to)};
  if (!upgrade.comparable()) return upgrade;
  const std::map<std::string, Trouble> then = troubles(upgrade.from);
  const std::map<std::string, Trouble> now = troubles(upgrade.to);
  upgrade.gained = beyond(then, now);
  upgrade.lost = beyond(now, then);
  upgrade.gets_further = gets_further(upgrade.from, upgrade.to, then, now);
  upgrade.text_changed = upgrade.from.failure && upgrade.to.failure &&
                         upgrade.from.failure->kind == upgrade.to.failure->kind &&
                         upgrade.from.failure->text != upgrade.to.failure->text;
  upgrade.costs_known = runs_to_its_end(upgrade.from) && runs_to_its_end(upgrade.to);
  if (upgrade.costs_known) {
    upgrade.cost_from = cost_of(upgrade.from);
    upgrade.cost_to = cost_of(upgrade.to);
  }
  return upgrade;
}

}  // namespace

bool ProgramUpgrade::costs_more() const {
  return cost_to.all_gathers > cost_from.all_gathers || cost_to.gathered_numel > cost_from.gathered_numel ||
         cost_to.peak_live_numel > cost_from.peak_live_numel;
}

bool ProgramUpgrade::worse(bool strict) const {
  if (to.end == End::kLacking) return from.end != End::kLacking;
  return (!gained.empty() && !gets_further) || (strict && costs_more());
}

bool ProgramUpgrade::better() const {
  return comparable() && (gets_further || (gained.empty() && !lost.empty()));
}

Verdict Upgrade::verdict() const {
  if (std::ranges::any_of(programs, [&](const ProgramUpgrade& one) { return one.worse(strict); }))
    return Verdict::kNotAsExpected;
  const bool any = std::ranges::any_of(programs, &ProgramUpgrade::comparable);
  return any && std::ranges::none_of(programs, &ProgramUpgrade::partial) ? Verdict::kAsExpected
                                                                         : Verdict::kInconclusive;
}

Upgrade upgrade_of(const std::vector<TestedProgram>& programs, const Release& from, const Release& to,
                   bool strict) {
  if (from == to)
    throw BadInput(fmt::format("--from and --to are both {}", from.text()), "name two releases");
  Upgrade upgrade{.from = from, .to = to, .strict = strict, .programs = {}};
  for (const TestedProgram& program : programs) upgrade.programs.push_back(upgraded(program, from, to));
  return upgrade;
}

}  // namespace zero3::sim
