#include "coordinator/release_rule.h"

#include <algorithm>

namespace zero3 {

bool ReleaseAnswer::allows(const Param& param) const {
  return std::ranges::binary_search(ds_ids, param.ds_id);
}

void ReleaseAnswer::allow(const Param& param) {
  const auto place = std::ranges::lower_bound(ds_ids, param.ds_id);
  if (place == ds_ids.end() || *place != param.ds_id) ds_ids.insert(place, param.ds_id);
}

ReleaseAnswer& ReleaseRule::answer(const Module& module, int64_t step, const Trace& trace,
                                   const std::function<int64_t(const Param&)>& fetched_for) {
  const auto index = static_cast<size_t>(step);
  if (index >= by_step_.size()) by_step_.resize(index + 1);
  for (ReleaseAnswer& cached : by_step_[index]) {
    if (cached.module == &module) return cached;
  }
  return by_step_[index].emplace_back(compute(module, step, trace, fetched_for));
}

ReleaseAnswer ReleaseRule::compute(const Module& module, int64_t step, const Trace& trace,
                                   const std::function<int64_t(const Param&)>& fetched_for) const {
  const Behaviour& behaviour = runtime_.behaviour;
  ReleaseAnswer answer{&module, {}, {}};
  const auto keep = [&answer](const Param& param, Reason reason, int64_t at) {
    const auto place = std::ranges::lower_bound(answer.ds_ids, param.ds_id);
    if (place == answer.ds_ids.end() || *place != param.ds_id) return;
    answer.ds_ids.erase(place);
    answer.kept.push_back({&param, reason, at});
  };
  for (const Param* param : module.param_set()) {
    answer.allow(*param);
    if (param->ds_persist) keep(*param, Reason::kPersists, -1);
  }
  if (behaviour.retains_skipped_use) {
    for (const Param* param : module.param_set()) {
      if (fetched_for(*param) > step) keep(*param, Reason::kUseSkipped, fetched_for(*param));
    }
  }
  const int64_t distance = runtime_.settings.max_reuse_distance_numel;
  const std::vector<Module*>& order = trace.submodule_order();
  int64_t traversed = 0;
  for (auto at = static_cast<size_t>(step); at < order.size(); ++at) {
    if (behaviour.reuse_loop_stops_at_distance ? traversed >= distance : traversed > distance) break;
    // The recursion follows the module being released, not the one being passed.
    const Module& passed = *order[at];
    const bool same_recursion = passed.is_leaf == module.is_leaf;
    const std::vector<Param*> collected =
        same_recursion ? std::vector<Param*>{} : passed.collect_params(module.is_leaf);
    for (const Param* param : same_recursion ? passed.params() : std::span<Param* const>(collected)) {
      keep(*param, Reason::kReusedSoon, static_cast<int64_t>(at));
      traversed += param->ds_numel;
    }
  }
  return answer;
}

}  // namespace zero3
