// The program that fixes are tried on: a scenario's, or a recorded one.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/release.h"
#include "coordinator/settings.h"
#include "sim/outcome/tested_program.h"
#include "sim/program.h"

namespace zero3::sim {

// A fix of the scenario's file: one of the three.
struct FileFix {
  std::string name;
  std::optional<Settings> settings = {};  // all of them, with the fix's own among them
  std::function<std::optional<Experiment>(int ranks)> program = {};  // nothing: not for so many ranks
  std::vector<Release> releases = {};
};

struct FixSubject {
  std::string name;
  std::string path;
  uint64_t seed = 0;
  int ranks = 1;         // its own
  bool partial = false;  // a recording that was cut
  // On so many ranks; nothing: it has no program for them.
  std::function<std::optional<Experiment>(int ranks)> experiment;
  std::vector<FileFix> fixes;
};

// Recorded ranks that do the same stand for any number of ranks; those that differ, for their own alone.
FixSubject subject_of(const TestedProgram& program);

}  // namespace zero3::sim
