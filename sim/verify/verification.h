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

// Runs both and compares. A real run that times out where the model goes on is repeated once with three times the time.
// Throws ProbeUnavailable.
Verification verify(const Experiment& experiment, const std::string& name, uint64_t seed,
                    const Release& release, ProbeSession& probe);

}  // namespace zero3::sim
