#include "sim/fixes/branches.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace zero3::sim {
namespace {

// More different plans than anybody writes by hand; a recorded run may have one for each batch.
constexpr size_t kMaxPlans = 64;

std::map<int, std::vector<Calls>> plans_by_engine(const Experiment& experiment) {
  std::map<int, std::vector<Calls>> plans;
  for (const Program& program : experiment.rank_programs) {
    for (const Statement& statement : program) {
      for (const Op& op : statement.ops) {
        if (op.kind != OpKind::kForward) continue;
        std::vector<Calls>& known = plans[op.engine];
        if (known.size() < kMaxPlans && std::ranges::find(known, op.plan) == known.end())
          known.push_back(op.plan);
      }
    }
  }
  return plans;
}

size_t size_of(const Calls& calls) {
  size_t size = calls.size();
  for (const PlannedCall& call : calls) size += size_of(call.children);
  return size;
}

// Unites what can be branches of one forward, the longest plans first.
std::vector<Calls> wholes_of(std::vector<Calls> plans) {
  std::ranges::stable_sort(plans, [](const Calls& a, const Calls& b) { return size_of(a) > size_of(b); });
  std::vector<Calls> wholes;
  for (const Calls& plan : plans) {
    bool taken = false;
    for (Calls& whole : wholes) {
      std::optional<Calls> both = united(whole, plan);
      if (!both) continue;
      whole = std::move(*both);
      taken = true;
      break;
    }
    if (!taken) wholes.push_back(plan);
  }
  return wholes;
}

}  // namespace

std::vector<ForwardBranch> branches_of(const Experiment& experiment) {
  std::vector<ForwardBranch> branches;
  for (const auto& [engine, plans] : plans_by_engine(experiment)) {
    const std::vector<Calls> wholes = wholes_of(plans);
    for (const Calls& plan : plans) {
      for (const Calls& whole : wholes) {
        std::optional<std::vector<LeftOut>> missing = left_out(plan, whole);
        if (!missing) continue;
        if (!missing->empty()) branches.push_back({engine, plan, whole, std::move(*missing)});
        break;
      }
    }
  }
  return branches;
}

Experiment with_plan(const Experiment& experiment, const ForwardBranch& branch, const Calls& plan) {
  Experiment changed = experiment;
  for (Program& program : changed.rank_programs) {
    for (Statement& statement : program) {
      for (Op& op : statement.ops) {
        if (op.kind == OpKind::kForward && op.engine == branch.engine && op.plan == branch.plan)
          op.plan = plan;
      }
    }
  }
  return changed;
}

Experiment without_branches(const Experiment& experiment) {
  Experiment changed = experiment;
  for (const ForwardBranch& branch : branches_of(experiment))
    changed = with_plan(changed, branch, branch.whole);
  return changed;
}

std::string module_names(const Experiment& experiment, const Calls& calls) {
  constexpr size_t kMost = 4;
  std::string names;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (i + 1 == kMost && calls.size() > kMost) return names + fmt::format(" and {} more", calls.size() - i);
    const int module = calls[i].module;
    names += (i == 0 ? "" : " ") + (module < 0 ? std::string("(a region)")
                                               : experiment.model.modules[static_cast<size_t>(module)].name);
  }
  return names;
}

Calls calls_of(const LeftOut& one, const Calls& whole) {
  const Calls& list = list_at(whole, one.path);
  Calls calls;
  for (const size_t index : one.calls) calls.push_back(list[index]);
  return calls;
}

}  // namespace zero3::sim
