// Reads the recorded runs of real releases under tests/golden/observed and tests/golden/recorded (format: their
// README.md).
#pragma once

#include <string>
#include <vector>

#include "coordinator/release.h"
#include "sim/program.h"

namespace zero3::golden {

struct RecordedStep {
  std::string token;
  bool failed = false;
  std::string error;     // shortened text, "" if it did not fail
  std::string path;      // "backward>reset_step"
  std::string statuses;  // "A=N B=I"
  std::string printed;   // invalidation lines
  std::vector<std::string> events;
  std::string line;  // as recorded
  // Where the recorder kept them: the whole text ("    ! ") and the whole call path ("    @ ").
  std::string full_error;
  std::string full_path;
};

struct Block {
  std::string file;
  int line = 0;
  std::string header;
  Release release;
  bool nested = false;
  bool has_events = true;  // v0.5.10.main.txt was recorded without
  std::string program;
  sim::Experiment experiment;
  std::vector<RecordedStep> steps;
};

// Every block of every file below `folder`.
std::vector<Block> read_observed(const std::string& folder);

RecordedStep parse_step(const std::string& line);

// Runs the block's program on the model of its release.
std::vector<RecordedStep> run_model(const Block& block);

// The first difference between what was recorded and what the model does, with the lines; "" if none. Normalised as
// eras.md 5.9 says: gathers as sets, neighbouring releases sorted, the params of an error as a set.
std::string difference(const Block& block, const std::vector<RecordedStep>& modelled);

}  // namespace zero3::golden
