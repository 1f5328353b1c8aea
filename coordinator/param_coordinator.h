// The coordinator as the hooks see it. Two implementations: PrefetchCoordinator (v0.3.12-v0.5.10) and
// PartitionedParameterCoordinator (v0.6.0 and later).
#pragma once

#include <string_view>

#include "coordinator/failure.h"
#include "coordinator/model.h"

namespace zero3 {

class ParamCoordinator {
 public:
  virtual ~ParamCoordinator() = default;

  // A module's pre-forward or pre-backward hook: trace, record, fetch, prefetch.
  virtual Raised before_sub_module(Module& module, bool forward) = 0;
  // Its post-forward or post-backward hook: release.
  virtual Raised after_sub_module(Module& module, bool forward) = 0;
  virtual Raised reset_step() = 0;
  // Partitions every param of the model and forgets who uses it.
  virtual Raised release_and_reset_all(Module& root) = 0;
  // The optimizer's _pre_step told v1 that the trace is whole.
  virtual void finish_tracing() {}
  // Modules whose post-backward hook never came (v0.19.3).
  virtual Raised release_backward_leftovers() { return nullptr; }
  // The root's hooks were registered again (v0.19.2).
  virtual Raised hooks_registered_again() { return nullptr; }
  // A forward that runs inside a backward pass: activation checkpointing.
  virtual void set_recomputing(bool) {}
  // As printed by real releases: "COMPLETE", or "True" in v0.6.0.
  virtual std::string_view mode_text() const = 0;
};

}  // namespace zero3
