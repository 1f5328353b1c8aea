// The coordinator of v0.6.0 and later: partitioned_param_coordinator.py (stage3.py in v0.6.0-v0.6.1), PR #1453.
#pragma once

#include <memory>
#include <vector>

#include "coordinator/inflight_registry.h"
#include "coordinator/param_coordinator.h"
#include "coordinator/partitioner.h"
#include "coordinator/release_rule.h"
#include "coordinator/runtime.h"
#include "coordinator/trace.h"

namespace zero3 {

class PartitionedParameterCoordinator final : public ParamCoordinator {
 public:
  PartitionedParameterCoordinator(Runtime& runtime, Partitioner& partitioner,
                                  std::shared_ptr<InflightRegistry> registry);

  Raised before_sub_module(Module& module, bool forward) override;
  Raised after_sub_module(Module& module, bool forward) override;
  Raised reset_step() override;
  Raised release_and_reset_all(Module& root) override;
  Raised release_backward_leftovers() override;
  Raised hooks_registered_again() override;
  void set_recomputing(bool recomputing) override { recomputing_ = recomputing; }
  std::string_view mode_text() const override;

 private:
  Raised trace_prologue(Module& module);
  Raised invalidate();
  Raised clean_inflight_registry();
  // Fetch
  Raised fetch_sub_module(Module& module, bool forward);
  Raised wait_for(Module& module, Param& param);
  void attribute_recompute(Param& param, bool forward);
  Raised discard_from_queue(Module& module);
  Raised prefetch(Module& module);
  Reason fill_bucket(int64_t budget, int64_t& chosen_numel);
  void announce_prefetch();
  Raised all_gather_params(std::span<Param* const> params, Reason reason, const Module& module);
  Raised tracing_error(const Module& module, const std::vector<Param*>& expected,
                       const std::vector<Param*>& got) const;
  int64_t fetched_for(const Param& param) const;
  void set_fetched_for(const Param& param, int64_t step);
  bool is_marked(const Param& param) const;
  void mark(const Param& param);
  // Release
  Raised release_sub_module(Module& module, bool forward);
  Raised release_module_param(Module& module, Param& param, bool allowed, const ReleaseAnswer* answer);
  Raised release_param(Param& param, Reason reason);
  void explain_kept(const Module& module, const Param& param, const ReleaseAnswer* answer) const;
  void forget_active_backward(const Module& module);

  Runtime& runtime_;
  Partitioner& partitioner_;
  std::shared_ptr<InflightRegistry> registry_;
  Trace trace_;
  ReleaseRule release_rule_;
  int64_t step_id_ = 0;
  int64_t n_available_numel_ = 0;
  bool recomputing_ = false;
  std::vector<Module*> active_backward_;  // v0.19.3: keyed by ds_id, a repeated key keeps its place

  // __most_recent_step_id_param_fetched_for, by ds_id; an entry counts only in its own round.
  struct FetchedFor {
    int64_t step = 0;
    uint64_t round = 0;
  };
  std::vector<FetchedFor> fetched_for_;
  uint64_t round_ = 1;

  std::vector<Param*> pending_;
  std::vector<Param*> discarded_;
  std::vector<Param*> chosen_;
  std::vector<int64_t> chosen_steps_;  // of the trace, that each of chosen_ is prefetched for
  std::vector<Param*> missing_;
  std::vector<uint64_t> marks_;  // by ds_id: a param is in the set being built if it carries the current mark
  uint64_t mark_ = 0;
};

}  // namespace zero3
