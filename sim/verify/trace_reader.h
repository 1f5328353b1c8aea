// Reads traces: JSON lines of docs/trace-format.md, one run after the other, as they come.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "sim/verify/trace.h"

namespace zero3::sim {

constexpr int kTraceVersion = 1;

class TraceReader {
 public:
  // `source` names the stream in errors.
  explicit TraceReader(std::string source) : source_(std::move(source)) {}

  // Takes the next line, without its newline; hands over a run at its end line. Unknown events and keys are passed
  // over. Throws BadInput with the line's number: not JSON, no header, a newer version, a key of the wrong type.
  std::optional<RunTrace> add_line(std::string_view line);

  // What came of the run that is being read, if one began; it is not whole. The reader starts anew.
  std::optional<RunTrace> cut();

 private:
  void begin(const nlohmann::json& header);

  std::string source_;
  int line_number_ = 0;
  std::optional<RunTrace> run_;
};

// All runs of a text; the last one may be cut and is then not whole. Throws BadInput.
std::vector<RunTrace> read_traces(std::string_view text, const std::string& source);

}  // namespace zero3::sim
