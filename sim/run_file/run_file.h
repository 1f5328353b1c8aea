// The run file: an experiment with everything spelled out, as it passes between zero3sim and real DeepSpeed.
//
// docs/run-format.md tells the format, version kRunVersion. What is written is a function of the experiment alone, the
// same bytes as the Python package writes for the same scenario.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/program.h"

namespace zero3::sim {

constexpr int kRunVersion = 1;

// What a recorded run was recorded on; a text is empty where the recorder did not know.
struct RecordedOn {
  std::string deepspeed;  // "0.15.2"
  std::string torch;
  std::string python;
  std::string command;

  bool operator==(const RecordedOn&) const = default;
};

// What a statement of a recorded run raised.
struct RecordedFailure {
  int rank = 0;
  size_t statement = 0;  // index in the rank's program
  std::string exception;
  std::string text;
  std::vector<std::string> path;  // DeepSpeed's functions, the engine's method first

  bool operator==(const RecordedFailure&) const = default;
};

struct RecordedRun {
  Experiment experiment;
  std::string name;
  uint64_t seed = 0;     // of hash order: the program's draws are settled
  bool partial = false;  // the file was cut: the statements end there, and later ranks have none
  std::optional<RecordedOn> recorded;
  std::vector<RecordedFailure> raised = {};

  bool operator==(const RecordedRun&) const = default;
};

// A partial run has no last line. The experiment's places are not written.
std::string write_run(const RecordedRun& run);
std::string write_run(const Experiment& experiment, const std::string& name, uint64_t seed);

// All runs of a file, one after the other; a statement's place is its line there. Throws BadInput under the name
// `source`, at the line and column of what is wrong. A last run that was cut is partial, not wrong.
std::vector<RecordedRun> read_runs(const std::string& text, const std::string& source);

// Whether a text begins as a run file does.
bool looks_like_run_file(const std::string& text);

}  // namespace zero3::sim
