// Reads tests/golden/traces: what a program did on real releases, packed by record.py; README.md there tells the form.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace zero3::golden {

struct PackedTrace {
  std::string file;  // "layer-drop.json"
  std::string program;
  int ranks = 1;
  std::vector<std::string> releases = {};  // that left these very events
  std::string text = {};                   // as docs/trace-format.md has it, under the first of them

  // For messages of tests.
  friend std::ostream& operator<<(std::ostream& out, const PackedTrace& trace) { return out << trace.file; }
};

std::vector<PackedTrace> read_packed(const std::string& folder);

}  // namespace zero3::golden
