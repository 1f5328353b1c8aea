#include "sim/fixes/model_fixes.h"

#include <algorithm>
#include <map>
#include <memory>

#include "coordinator/behaviour.h"
#include "coordinator/model.h"
#include "sim/fixes/branches.h"
#include "sim/simulate.h"

namespace zero3::sim {
namespace {

struct Prefetched {
  size_t statement = 0;
  size_t order = 0;
  EarlyGather how;
};

// Keeps how each parameter was prefetched last. `found` outlives the run.
class PrefetchWatcher final : public RankWatcher {
 public:
  explicit PrefetchWatcher(std::map<std::string, Prefetched>& found) : found_(found) {}

  void on_event(const Event& event) override {
    switch (event.kind) {
      case EventKind::kFetch: fetching_ = event.module->name; return;
      case EventKind::kPrefetch: {
        const Param& param = *event.params.front();
        found_[param.name] = {statement_, order_++, {param.name, fetching_, chosen_numel_, live_numel_}};
        chosen_numel_ += param.ds_numel;
        return;
      }
      case EventKind::kPrefetchEnd: chosen_numel_ = 0; return;
      case EventKind::kAllGather:
        for (const Param* param : event.params) live_numel_ += param->ds_numel;
        return;
      case EventKind::kRelease:
        for (const Param* param : event.params) live_numel_ -= param->ds_numel;
        return;
      default: return;
    }
  }

  void after_statement(const Statement&, const Failure*, const RankRunner&) override { ++statement_; }

 private:
  std::map<std::string, Prefetched>& found_;
  std::string fetching_;
  size_t statement_ = 0;
  size_t order_ = 0;
  int64_t chosen_numel_ = 0;
  int64_t live_numel_ = 0;
};

// Of everything below the calls.
void add_params(const Experiment& experiment, const Calls& calls, std::vector<const ParamSpec*>& params,
                std::vector<std::string>& names) {
  for (const PlannedCall& call : calls) {
    if (call.module >= 0) {
      const ModuleSpec& module = experiment.model.modules[static_cast<size_t>(call.module)];
      for (const ParamSpec& param : module.params) {
        params.push_back(&param);
        names.push_back(module.name + "." + param.name);
      }
    }
    add_params(experiment, call.children, params, names);
  }
}

int64_t numel_of(const ParamSpec& param) {
  int64_t numel = 1;
  for (const int64_t extent : param.shape) numel *= extent;
  return numel;
}

struct Skipped {
  std::vector<std::string> names;
  int64_t largest_numel = 0;
};

Skipped skipped_params(const Experiment& experiment, const Outcome& outcome) {
  Skipped skipped;
  if (outcome.failure && !outcome.failure->params.empty()) {
    for (const RankFailure::NamedParam& param : outcome.failure->params) {
      skipped.names.push_back(param.name);
      skipped.largest_numel = std::max(skipped.largest_numel, param.ds_numel);
    }
    return skipped;
  }
  std::vector<const ParamSpec*> params;
  for (const ForwardBranch& branch : branches_of(experiment)) {
    for (const LeftOut& one : branch.left_out)
      add_params(experiment, calls_of(one, branch.whole), params, skipped.names);
  }
  for (const ParamSpec* param : params)
    skipped.largest_numel = std::max(skipped.largest_numel, numel_of(*param));
  return skipped;
}

}  // namespace

std::optional<EarlyGather> find_early_gather(const Experiment& experiment, const Release& release,
                                             uint64_t seed, const Outcome& outcome) {
  const int failing = outcome.failure ? outcome.failure->rank : 0;
  std::map<int, std::map<std::string, Prefetched>> by_rank;
  const SimulationResult result =
      simulate(experiment, {.release = release, .set_order_seed = seed, .watch = [&by_rank](int rank) {
                              return std::make_unique<PrefetchWatcher>(by_rank[rank]);
                            }});
  const std::map<std::string, Prefetched>& found =
      by_rank[result.ranks[static_cast<size_t>(failing)].like_rank];
  const Prefetched* first = nullptr;
  for (const std::string& name : skipped_params(experiment, outcome).names) {
    const auto one = found.find(name);
    if (one == found.end()) continue;
    if (first == nullptr || one->second.order < first->order) first = &one->second;
  }
  if (first == nullptr) return std::nullopt;
  return first->how;
}

int64_t persisting(int64_t numel, const Release& release) {
  return behaviour_of(release).persistence_inclusive ? numel : numel + 1;
}

int64_t largest_skipped_numel(const Experiment& experiment, const Outcome& outcome) {
  return skipped_params(experiment, outcome).largest_numel;
}

int64_t largest_numel(const Experiment& experiment) {
  int64_t largest = 0;
  for (const ModuleSpec& module : experiment.model.modules) {
    for (const ParamSpec& param : module.params) largest = std::max(largest, numel_of(param));
  }
  return largest;
}

std::vector<int> branching_modules(const Experiment& experiment) {
  std::vector<int> modules;
  for (const ForwardBranch& branch : branches_of(experiment)) {
    for (const LeftOut& one : branch.left_out) {
      if (one.path.empty()) continue;
      const std::vector<size_t> around(one.path.begin(), one.path.end() - 1);
      const int module = list_at(branch.whole, around)[one.path.back()].module;
      if (module >= 0 && std::ranges::find(modules, module) == modules.end()) modules.push_back(module);
    }
  }
  std::ranges::sort(modules);
  return modules;
}

std::optional<Experiment> leaf_modules_at_branches(const Experiment& experiment) {
  Experiment changed = experiment;
  for (const int module : branching_modules(experiment))
    changed.model.modules[static_cast<size_t>(module)].leaf = true;
  if (changed.model == experiment.model) return std::nullopt;
  return changed;
}

}  // namespace zero3::sim
