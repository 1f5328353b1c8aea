// One program on real DeepSpeed and on the model of its release.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/release.h"
#include "sim/verdict.h"
#include "sim/verify/comparison.h"
#include "sim/verify/model_trace.h"
#include "sim/verify/probe_session.h"

namespace zero3::sim {

// The model for an installed release: its own, else that of the newest release before it (the oldest for one before
// all). Nothing if the text is no release.
struct ModelledRelease {
  Release release;
  bool exact = true;
};
std::optional<ModelledRelease> model_for(const std::string& deepspeed);

struct Verification {
  Comparison comparison;
  ModelRun model;
  ProbeAnswer real;

  bool agrees() const { return comparison.outcome == Comparison::Outcome::kAgrees; }
  // kAsExpected: agrees; kHang: the real run waits for ever where the model goes on.
  Verdict verdict() const;
};

// Runs the model and compares. The real run's sets of tensors have an order that nobody knows, and where something
// raises it decides what came before: where the model differs with one order, it may agree with another, which is then
// the run's. `seed`: of the first order tried.
Verification held(const Experiment& experiment, const std::string& name, uint64_t seed,
                  const Release& release, ProbeAnswer real);

// The same with a run of the probe. A real run that times out where the model goes on is repeated once with three times
// the time.
// Throws ProbeUnavailable.
Verification verify(const Experiment& experiment, const std::string& name, uint64_t seed,
                    const Release& release, ProbeSession& probe);

}  // namespace zero3::sim
