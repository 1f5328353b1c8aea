// The programs that a command is asked about: of scenario files, run files and folders of both.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/outcome/tested_program.h"
#include "sim/verdict.h"

namespace zero3::sim::cli {

struct ProgramArguments {
  std::vector<std::string> paths;
  int ranks = 0;                      // 0: the scenario's own
  std::optional<uint64_t> seed = {};  // none: the scenario's own
};

// Files as given; for a folder what scenario_files() takes, and every *.jsonl below it that begins as a run file.
std::vector<std::string> program_files(const std::vector<std::string>& paths);

struct LoadedPrograms {
  std::vector<TestedProgram> programs;  // never empty
  bool any_refused = false;

  // With bad input among the files, that decides.
  Verdict with_refused(Verdict verdict) const { return any_refused ? Verdict::kBadInput : verdict; }
};

// A file that cannot be taken is told on standard error, and the rest is loaded. Throws BadInput if nothing is left.
LoadedPrograms load(const ProgramArguments& arguments);
// The same of several, one after the other.
LoadedPrograms load(const std::vector<ProgramArguments>& arguments);

}  // namespace zero3::sim::cli
