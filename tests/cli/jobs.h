// What tests of ranks in processes of their own have in common.
#pragma once

#include <string>
#include <vector>

#include "tests/cli/shell.h"

namespace zero3::cli_test {

inline const std::string kMpirun = std::string(kMpiEnvironment) + "mpirun -np ";
inline constexpr int kKilled = 128 + 9;  // mpirun's exit code where a process was killed

// Each with a space ahead, quoted.
std::string joined(const std::vector<std::string>& words);
// What all lines but the one that repeats the run say.
std::string without_reproducer(const std::string& text);
// Scenarios that this many ranks can run on the release and that no rank hangs in; of each so many, the first is tried.
std::vector<std::string> running(const std::string& release, const std::string& ranks, size_t of_each = 1);
// Counts the processes of a job that is over, "0\n" if there are none. Every process of it has the marker in its
// arguments: --trace no-such-folder/MARKER.
Outcome orphans(const std::string& marker);

}  // namespace zero3::cli_test
