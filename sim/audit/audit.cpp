#include "sim/audit/audit.h"

#include <algorithm>
#include <array>
#include <set>

namespace zero3::sim {
namespace {

constexpr std::array<std::string_view, 4> kKinds = {"stale-weights", "unreleased-params", "prefetch-disabled",
                                                    "prefetch-thrown-away"};
constexpr std::array<std::string_view, 4> kConsequences = {"harmless", "slower", "memory", "wrong result"};

constexpr int64_t kStorm =
    3;  // invalidations: fewer are a change of the program, which the next trace learns

}  // namespace

std::string_view name(SilentFaultKind kind) { return kKinds[static_cast<size_t>(kind)]; }
std::string_view name(Consequence consequence) { return kConsequences[static_cast<size_t>(consequence)]; }

std::vector<std::string> silent_fault_names() { return {kKinds.begin(), kKinds.end()}; }

std::vector<std::string> kinds_of(const std::vector<SilentFault>& faults) {
  std::set<std::string> kinds;
  for (const SilentFault& fault : faults) kinds.emplace(name(fault.kind));
  return {kinds.begin(), kinds.end()};
}

void Audit::Found::add(size_t statement) {
  if (statements.empty() || statements.back() != statement) statements.push_back(statement);
}

void Audit::Found::add(size_t statement, const Param& param) {
  add(statement);
  if (std::ranges::find(params, param.name) == params.end()) params.push_back(param.name);
}

SilentFault Audit::Found::as(SilentFaultKind kind, Consequence consequence) const {
  return {.kind = kind,
          .consequence = consequence,
          .statement = statements.front(),
          .statements = statements.size(),
          .params = params};
}

Audit::Holding& Audit::holding(const Param& param) {
  const auto id = static_cast<size_t>(param.ds_id);
  if (id >= holdings_.size()) holdings_.resize(id + 1);
  return holdings_[id];
}

void Audit::on_event(const Event& event) {
  switch (event.kind) {
    case EventKind::kAllGather: return gathered(event);
    case EventKind::kFetch: return fetched(event);
    case EventKind::kRelease: return released(event);
    case EventKind::kInvalidate: ++statements_.back().invalidations; return;
    default: return;
  }
}

void Audit::gathered(const Event& event) {
  const bool prefetched = event.reason == Reason::kPrefetched;
  const auto launches = static_cast<int64_t>(gathers_singly_ ? event.params.size() : 1);
  usage_.all_gathers += launches;
  if (prefetched) statements_.back().prefetched += launches;
  if (event.reason == Reason::kNeeded) {
    usage_.exposed_all_gathers += launches;
    statements_.back().needed += launches;
  }
  if (!gathers_singly_) launches_.push_back({.params = event.params.size()});
  for (const Param* param : event.params) {
    if (gathers_singly_) launches_.push_back({.params = 1});
    Holding& own = holding(*param);
    usage_.gathered_numel += param->ds_numel;
    if (own.thrown_away_in == statements_.size() - 1) {
      ++launches_[own.launch].repeated;
      repeated_numel_ += param->ds_numel;
      thrown_away_.add(statements_.size() - 1, *param);
    }
    if (!own.live) live_numel_ += param->ds_numel;
    own = {.live = true,
           .unused = prefetched,
           .after_update = event.reason == Reason::kPersistent,
           .launch = launches_.size() - 1};
  }
  usage_.peak_live_numel = std::max(usage_.peak_live_numel, live_numel_);
}

void Audit::fetched(const Event& event) {
  ++statements_.back().fetches;
  for (const Param* param : event.module->param_set()) {
    Holding& own = holding(*param);
    own.used_in_backward_by = event.forward ? nullptr : event.module;
    own.unused = false;
    if (own.live && own.outdated) stale_.add(statements_.size() - 1, *param);
  }
}

void Audit::released(const Event& event) {
  for (const Param* param : event.params) {
    Holding& own = holding(*param);
    if (own.live) live_numel_ -= param->ds_numel;
    const Module* module = own.used_in_backward_by;
    if (event.reason == Reason::kPartitionAll && !param->ds_persist && module != nullptr &&
        module->ds_grads_remaining > 0) {
      kept_.add(statements_.size() - 1, *param);
      kept_numel_now_ += param->ds_numel;
    }
    if (own.live && own.unused && event.reason == Reason::kCleaned)
      own.thrown_away_in = statements_.size() - 1;
    own.live = own.outdated = false;
  }
}

void Audit::after_statement(const Statement&, const Failure*, const RankRunner& runner) {
  step_ended(runner);
  kept_numel_ = std::max(kept_numel_, kept_numel_now_);
  kept_numel_now_ = 0;
  statements_.emplace_back();
}

// A step is the last thing that a statement does.
void Audit::step_ended(const RankRunner& runner) {
  engine_steps_.resize(runner.engines().size());
  for (size_t i = 0; i < runner.engines().size(); ++i) {
    const Engine& engine = *runner.engines()[i];
    if (engine.optimizer_steps() == engine_steps_[i]) continue;
    usage_.optimizer_steps += engine.optimizer_steps() - engine_steps_[i];
    engine_steps_[i] = engine.optimizer_steps();
    for (const Param* param : engine.parameters()) {
      Holding& own = holding(*param);
      if (!own.live) continue;
      own.outdated = param->requires_grad && !own.after_update;
      own.after_update = false;
    }
  }
}

double Audit::per_step(double count) const {
  return count / static_cast<double>(std::max<int64_t>(usage_.optimizer_steps, 1));
}

// From the second invalidation on no statement prefetches, though every one gathers.
void Audit::add_prefetch_disabled(std::vector<SilentFault>& faults) const {
  if (settings_.prefetch_bucket_numel == 0) return;
  int64_t invalidations = 0;
  int64_t exposed = 0;
  Found without;
  for (size_t i = 0; i < statements_.size(); ++i) {
    const StatementCounts& counts = statements_[i];
    invalidations += counts.invalidations;
    if (invalidations < 2 || counts.fetches == 0) continue;
    if (counts.prefetched > 0) return;
    without.add(i);
    exposed += counts.needed;
  }
  if (invalidations < kStorm || exposed == 0) return;
  SilentFault fault = without.as(SilentFaultKind::kPrefetchDisabled, Consequence::kSlower);
  fault.exposed_all_gathers_per_step =
      static_cast<double>(exposed) / static_cast<double>(without.statements.size());
  faults.push_back(fault);
}

std::vector<SilentFault> Audit::faults() const {
  std::vector<SilentFault> faults;
  if (!stale_.statements.empty())
    faults.push_back(stale_.as(SilentFaultKind::kStaleWeights, Consequence::kWrongResult));
  if (!kept_.statements.empty()) {
    faults.push_back(kept_.as(SilentFaultKind::kUnreleasedParams, Consequence::kMemory));
    faults.back().live_numel = kept_numel_;
  }
  add_prefetch_disabled(faults);
  if (!thrown_away_.statements.empty()) {
    const bool again = thrown_away_.statements.size() > 1;
    faults.push_back(thrown_away_.as(SilentFaultKind::kPrefetchThrownAway,
                                     again ? Consequence::kSlower : Consequence::kHarmless));
    const auto whole = std::ranges::count_if(launches_, [](const Launch& launch) {
      return launch.params > 0 && launch.repeated == launch.params;
    });
    faults.back().all_gathers_per_step = per_step(static_cast<double>(whole));
    faults.back().numel_per_step = per_step(static_cast<double>(repeated_numel_));
  }
  return faults;
}

}  // namespace zero3::sim
