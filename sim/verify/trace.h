// A run as its trace tells it, whether real DeepSpeed wrote it or the model did: what comparison looks at.
//
// The events are those of docs/trace-format.md that a real run can show; record, prefetch, prefetch-end and keep are
// decisions inside DeepSpeed and are not in here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zero3::sim {

struct TraceEvent {
  std::string event;  // "fetch", "all-gather", ...
  std::string module = {};
  int module_id = -1;  // -1: no module
  std::vector<std::string> params = {};
  std::vector<int> ds_ids = {};
  int64_t step = -1;      // -1: none
  std::string pass = {};  // "forward", "backward"
  std::string reason = {};
  int64_t expected_module_id = -1;  // of invalidate, as is
  int64_t trace_length = -1;
  std::string text = {};

  bool operator==(const TraceEvent&) const = default;
};

struct TraceFailure {
  std::string exception;
  std::string text;
  std::vector<std::string> path;  // DeepSpeed's functions, outermost first
};

struct TraceStatement {
  std::string text;
  std::vector<TraceEvent> events = {};
  std::optional<std::string> statuses = {};  // none: it did not come to its end
  std::optional<TraceFailure> failure = {};
};

// How a rank ended that neither came to its end nor raised.
struct TraceStop {
  enum class Kind {
    kTimeout,  // waits for ever
    kDied,
  };
  Kind kind = Kind::kTimeout;
  size_t statement = 0;
  std::string text;  // where it was
  // Of a model's rank that waits: ranks put different numbers of elements into one collective. gloo then kills one that
  // receives more than it asked for, and the others lose their connection to it.
  bool sizes_differ = false;
};

struct RankTrace {
  int rank = 0;
  std::vector<TraceStatement> statements = {};  // those that began
  std::optional<TraceStop> stop = {};

  bool failed() const { return !statements.empty() && statements.back().failure.has_value(); }
};

struct RunTrace {
  std::string scenario;
  std::string deepspeed;  // as the trace has it: "0.15.2"
  bool real = false;      // of real DeepSpeed, which tells what it ran on:
  std::string torch = {};
  std::string python = {};
  int ranks = 1;
  uint64_t seed = 0;
  std::string command = {};                 // of the source, words joined with blanks; "" for the model's
  std::vector<RankTrace> by_rank = {};      // ascending
  std::optional<std::string> refused = {};  // why the probe cannot run it
  bool whole = false;                       // the end line came

  // Null: the trace has nothing of that rank.
  const RankTrace* rank(int number) const {
    for (const RankTrace& one : by_rank) {
      if (one.rank == number) return &one;
    }
    return nullptr;
  }
};

}  // namespace zero3::sim
