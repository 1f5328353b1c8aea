// Which of a module's params its release may partition, once the trace is complete: __params_to_release.
//
// DeepSpeed caches the answer per (module, step id) for the coordinator's life, through invalidations and
// re-recordings, and from v0.19.3 adds a module's recompute params to the very set it cached. Both are kept: they
// decide outcomes.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "coordinator/runtime.h"
#include "coordinator/trace.h"

namespace zero3 {

struct KeptParam {
  const Param* param;
  Reason reason;
  int64_t step;  // of the later use, where the reason is one
};

struct ReleaseAnswer {
  const Module* module;
  std::vector<int> ds_ids;  // may be partitioned; ascending
  std::vector<KeptParam> kept;

  bool allows(const Param& param) const;
  void allow(const Param& param);
};

class ReleaseRule {
 public:
  explicit ReleaseRule(const Runtime& runtime) : runtime_(runtime) {}

  // `fetched_for(param)`: the latest step that the prefetcher passed for it. Stays valid until the next call.
  ReleaseAnswer& answer(const Module& module, int64_t step, const Trace& trace,
                        const std::function<int64_t(const Param&)>& fetched_for);

 private:
  ReleaseAnswer compute(const Module& module, int64_t step, const Trace& trace,
                        const std::function<int64_t(const Param&)>& fetched_for) const;

  const Runtime& runtime_;
  std::vector<std::vector<ReleaseAnswer>> by_step_;
};

}  // namespace zero3
