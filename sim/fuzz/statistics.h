// What generated programs are made of and how they end on the model: a look at whether they are worth running.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/fuzz/fuzz_target.h"

namespace zero3::sim {

struct FuzzStatistics {
  uint64_t programs = 0;
  // How many programs have it. Every shape and operation that there is, those with none too.
  std::map<std::string, uint64_t> shapes;
  std::map<std::string, uint64_t> operations;
  uint64_t completed = 0;
  uint64_t failed_late = 0;                  // in the second half of their statements
  std::map<std::string, uint64_t> failures;  // by kind
};

// Of programs `first` and following, spread over world sizes as the fuzzer does.
FuzzStatistics statistics_of(uint64_t seed, uint64_t first, uint64_t programs, const FuzzTarget& target,
                             const std::vector<int>& ranks);

std::string text_of(const FuzzStatistics& statistics);

}  // namespace zero3::sim
