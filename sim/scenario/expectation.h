// What a scenario is expected to end in, per range of releases, and whether a run ended so.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "coordinator/failure.h"
#include "coordinator/param.h"
#include "coordinator/release.h"
#include "sim/program.h"
#include "sim/scenario/yaml_reader.h"

namespace zero3::sim {

// Known releases as an expectation names them (sim/release_selection.h), and its words.
class ReleaseRange {
 public:
  // Throws BadInput at the place in the node.
  static ReleaseRange parse(const YamlFile& file, const YamlNode& node);

  bool contains(const Release& release) const;
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::vector<Release> releases_;  // ascending
};

// How a run ended, in whatever way it was run.
struct Ending {
  struct NamedParam {
    std::string name;
    std::optional<ZeroParamStatus> status;  // none: not known
  };
  std::optional<FailureKind> failure;  // none: every rank ran to its end
  std::string text;
  int rank = 0;
  size_t statement = 0;  // of that rank's program, from 0
  std::string statement_text;
  std::vector<NamedParam> params;                        // those that the text names
  std::optional<std::vector<std::string>> printed = {};  // by rank 0; none: not known
  std::optional<std::vector<std::string>> silent =
      {};  // kinds of silent faults on any rank, sorted; none: not known
};

struct Expectation {
  ReleaseRange releases;
  Place place;
  std::optional<FailureKind> failure;                   // none: completes
  std::optional<std::vector<std::string>> prints = {};  // all that rank 0 prints, in its order
  std::optional<std::vector<std::string>> silent = {};  // all kinds of silent faults, sorted
  // Of a failure. Each is checked only if it is given.
  std::vector<std::string> params = {};        // all that the failure names, in its order
  std::optional<ZeroParamStatus> status = {};  // of each of them
  std::string text = {};                       // part of the failure's text
  std::string at = {};                         // start of the failing statement's text
  std::optional<int64_t> step = {};            // the failing statement, from 1, repeats counted out
  std::optional<int64_t> rank = {};
};

// "" if the run ended as expected; else what is different.
std::string difference(const Expectation& expected, const Ending& ending);

// A scenario's `expect`. No two of them hold for one release, and none is of a rank outside the scenario's own `ranks`.
// Throws BadInput.
std::vector<Expectation> read_expectations(const YamlFile& file, const YamlNode& node, int ranks);

// "NOT_AVAILABLE", "INFLIGHT", "AVAILABLE".
std::optional<ZeroParamStatus> parse_status(std::string_view text);

}  // namespace zero3::sim
