// What `zero3sim verify` says, as text, JSON (docs/verify.md) and JUnit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/verdict.h"
#include "sim/verify/deciding_flag.h"
#include "sim/verify/verification.h"

namespace zero3::sim {

struct VerifiedRun {
  std::string name;
  int ranks = 1;
  uint64_t seed = 0;
  Verdict verdict = Verdict::kInconclusive;
  Comparison comparison = {};
  std::vector<std::string> statements = {};  // texts of the differing rank's program
  std::vector<DecidingFlag> deciding = {};   // where it differs
  std::string expected =
      {};  // how the real run disagrees with the scenario's own expectation; "": it does not
  std::string skipped = {};  // why it was not run: something that the release lacks; "": it was
  std::string reproduce;
};

struct VerifyReport {
  ProbeInfo installed;
  ModelledRelease modelled;
  std::vector<VerifiedRun> runs;

  // That of the gravest run; skipped ones do not count, but alone they are inconclusive.
  Verdict verdict() const;
};

// `width`: columns to keep to.
std::string text_report(const VerifyReport& report, size_t width);
std::string json_report(const VerifyReport& report);
// A test case for each scenario and number of ranks.
std::string junit_report(const VerifyReport& report);

}  // namespace zero3::sim
