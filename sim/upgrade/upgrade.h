// What an upgrade from one release to another changes for a program: what it gains and loses, and what it costs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/release.h"
#include "sim/outcome/outcome.h"
#include "sim/outcome/tested_program.h"
#include "sim/verdict.h"

namespace zero3::sim {

// Of the rank that has most of it. Per training step: divided by the optimizer's steps, of which there is at least one.
struct StepCost {
  double all_gathers = 0;       // collectives launched
  double gathered_numel = 0;    // elements
  int64_t peak_live_numel = 0;  // elements gathered or in flight at the same time, in the whole run

  bool operator==(const StepCost&) const = default;
};

struct ProgramUpgrade {
  std::string name = {};
  std::string path = {};
  int ranks = 1;
  uint64_t seed = 0;
  bool partial = false;
  Outcome from = {};
  Outcome to = {};
  // Failures, hangs, wrong data and silent faults worse than harmless, in words: "inflight-at-reset at step 3 (t:AC)",
  // "stale-weights (wrong result)".
  std::vector<std::string> gained = {};
  std::vector<std::string> lost = {};
  bool gets_further =
      false;  // past the failure of `from`, gaining at most what is slower or takes memory until then
  bool text_changed = false;  // the same failure in other words
  // Where both complete.
  bool costs_known = false;
  StepCost cost_from = {};
  StepCost cost_to = {};
  std::string reproduce_from = {};
  std::string reproduce_to = {};

  // False where a release cannot run it.
  bool comparable() const { return from.end != End::kLacking && to.end != End::kLacking; }
  bool costs_more() const;
  // Something gained without getting further, or a program that ran and cannot any more; if strict, a cost that rose.
  bool worse(bool strict) const;
  bool better() const;  // gets further, or something lost and nothing gained
};

struct Upgrade {
  Release from = {};
  Release to = {};
  bool strict = false;
  std::vector<ProgramUpgrade> programs = {};

  // kNotAsExpected: something got worse; kInconclusive: no program runs on both, or a recording was cut.
  Verdict verdict() const;
};

// Throws BadInput if both releases are the same.
Upgrade upgrade_of(const std::vector<TestedProgram>& programs, const Release& from, const Release& to,
                   bool strict);

std::string text_report(const Upgrade& upgrade);
std::string json_report(const Upgrade& upgrade);   // docs/upgrade.md
std::string junit_report(const Upgrade& upgrade);  // a case for each program

}  // namespace zero3::sim
