// The judge of differential fuzzing: an installed DeepSpeed at the other end of a probe session.
#pragma once

#include <cstdint>
#include <string>

#include "coordinator/release.h"
#include "sim/fuzz/fuzzer.h"
#include "sim/verify/probe_session.h"

namespace zero3::sim {

class ProbeJudge final : public Judge {
 public:
  // `release`: the model. `seed`: of hash order. Throws ProbeUnavailable.
  ProbeJudge(const ProbeOptions& options, const Release& release, uint64_t seed);

  Judgement judge(const Experiment& experiment, const std::string& name) override;

 private:
  ProbeSession probe_;
  Release release_;
  uint64_t seed_;
};

// Whether that torch's non-reentrant checkpointing stops its recomputation early: torch 2.1 and later. `torch`:
// "1.13.0a0", "2.15.0+cpu".
bool stops_recompute_early(const std::string& torch);

}  // namespace zero3::sim
