// What the two forms of `zero3sim verify` share: a program, and what is told of how it went for real.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "sim/cli/commands.h"
#include "sim/scenario/scenario.h"
#include "sim/verify/verify_report.h"

namespace zero3::sim::cli {

// A program to hold against the installed release.
struct Candidate {
  std::string name;
  Experiment experiment;
  uint64_t seed = 0;
  std::string reproduce;
  std::shared_ptr<const Scenario> scenario;  // null: none, so that nothing is expected

  int ranks() const { return static_cast<int>(experiment.rank_programs.size()); }
};

// `verify`: runs or reads the real run; not asked where the release lacks what the program uses.
VerifiedRun verified(const Candidate& candidate, const ModelledRelease& modelled,
                     const std::function<Verification()>& verify);

// Prints the report and writes what else the arguments ask for. Its verdict.
Verdict tell(const VerifyReport& report, const VerifyArguments& arguments);

}  // namespace zero3::sim::cli
