// The coordinator of v0.3.12-v0.5.10: PrefetchCoordinator and PartitionedParameterCoordinator of stage3.py.
//
// One trace of module ids over a whole accumulation cycle, frozen at the first optimizer step; prefetch only where the
// trace names the running module at the current step; params launched one by one and completed all together.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "coordinator/param_coordinator.h"
#include "coordinator/partitioner.h"
#include "coordinator/runtime.h"

namespace zero3 {

class PrefetchCoordinator final : public ParamCoordinator {
 public:
  PrefetchCoordinator(Runtime& runtime, Partitioner& partitioner)
      : runtime_(runtime), partitioner_(partitioner) {}

  Raised before_sub_module(Module& module, bool forward) override;
  Raised after_sub_module(Module& module, bool forward) override;
  Raised reset_step() override;
  Raised release_and_reset_all(Module& root) override;
  void finish_tracing() override { trace_completed_ = true; }
  std::string_view mode_text() const override { return trace_completed_ ? "True" : "False"; }

 private:
  Raised fetch_sub_module(Module& module, bool forward);
  Raised prefetch_next_sub_modules(Module& module);
  Raised get_params_to_prefetch(const Module& module, Reason& reason);
  Raised launch(std::span<Param* const> params, Reason reason, Module& module);
  Raised synchronize_communication();
  Raised release_sub_module(Module& module);
  Raised keep_for_later(const Module& module, bool& keep);
  Raised get_reuse_distance_in_numel(const Module& module, int64_t& distance_numel);
  int64_t distance_in_numel(size_t first_step, size_t last_step) const;

  Runtime& runtime_;
  Partitioner& partitioner_;
  std::vector<int> trace_;                   // sub_module_trace: module ids
  std::map<int, Module*> id_to_sub_module_;  // the last module recorded under an id
  bool trace_completed_ = false;
  int64_t step_id_ = 0;
  std::map<int, int64_t> most_recent_step_;          // by module id
  std::map<int64_t, int64_t> reuse_numel_for_step_;  // by step; never cleared
  std::vector<AllGatherHandle*> in_flight_;
  size_t params_in_flight_ = 0;  // as many, unless a param was listed twice
  int64_t available_numel_ = 0;  // never reset
  std::vector<Param*> scratch_;
};

}  // namespace zero3
