// How each process of a job stands, told to all before anything is done together: an error of one is an error of all,
// and all must be about to do the same.
#pragma once

#include <string>
#include <vector>

#include "sim/program.h"
#include "sim/verdict.h"

namespace zero3::sim {

struct Standing {
  std::string next;                        // what the process is about to do
  std::string error = {};                  // as it would be printed; "": none
  Verdict verdict = Verdict::kAsExpected;  // of the error

  bool operator==(const Standing&) const = default;
};

std::string to_text(const Standing& standing);
Standing standing_of(const std::string& text);

// What is wrong with the job, as of rank 0; its error is empty where all is well.
Standing agreed_on(const std::vector<Standing>& by_rank);

// Version of this binary, and a hash of its bytes.
std::string binary_text();
// The same text for the same experiment, release and seed, another for any other.
std::string run_text(const Experiment& experiment, const std::string& release, uint64_t seed);

}  // namespace zero3::sim
