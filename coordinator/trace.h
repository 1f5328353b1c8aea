// The recorded trace of one v2 coordinator: which modules ran, which params they will need at which step.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "coordinator/model.h"
#include "coordinator/runtime.h"

namespace zero3 {

enum class TraceMode { kRecord, kComplete, kInvalid };

struct ParamInTrace {
  Param* param;
  int64_t step_id_last_used_at;
};

class Trace {
 public:
  explicit Trace(const Runtime& runtime);

  TraceMode mode() const { return mode_; }
  bool complete() const { return mode_ == TraceMode::kComplete; }
  bool recording() const { return mode_ == TraceMode::kRecord; }
  const std::vector<Module*>& submodule_order() const { return submodule_order_; }

  // trace_prologue: does `module` match what was recorded for this step? Raises IDX where the release indexes past the
  // end; `diverged` asks for an invalidation, `message` is the line the release prints about it ("": none).
  Raised check(const Module& module, int64_t step, bool& diverged, std::string& message) const;
  void record_module(Module& module, int64_t step);
  // v0.6.0-v0.6.3: appended as modules run, under the current step.
  void record_params(Module& module, int64_t step);
  void invalidate();
  // The trace half of reset_step: checks ranks, finalises a recorded trace, moves the mode on.
  Raised finalise();

  // The fetch queue: param_order from the last reset on, consumed from the left. None after an invalidation.
  bool queue_empty() const { return queue_position_ >= queue_end_; }
  const ParamInTrace& pop_queue() { return param_order_[queue_position_++]; }
  void restart_queue();

 private:
  Raised build_param_order();
  Raised same_on_all_ranks(const std::vector<int64_t>& own) const;
  std::vector<int64_t> module_ids() const;

  const Runtime& runtime_;
  TraceMode mode_;
  std::vector<Module*> submodule_order_;
  std::vector<ParamInTrace> param_order_;
  std::map<int, std::deque<int64_t>> recorded_steps_;  // __step_id_module_fetched_for, by module id
  size_t queue_position_ = 0;                          // the queue is this stretch of param_order_
  size_t queue_end_ = 0;
};

}  // namespace zero3
