// Holds a trace of real DeepSpeed against the model's, literally: every event in order, statuses, texts, call paths.
//
// What DeepSpeed itself does not determine is taken as a set (eras.md 5.9: the order of Python sets of tensors):
// neighbouring waits of one fetch, neighbouring releases, the params of an error. Reasons are compared where both have
// one. Texts: sim/verify/error_text.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/verify/trace.h"

namespace zero3::sim {

// One line of a rank's run as reports show it: a statement's beginning, an event, statuses or failure at its end, the
// rank's end.
struct TraceLine {
  size_t statement = 0;
  std::string text;
};

struct Difference {
  int rank = 0;
  size_t statement = 0;  // of that rank's program, from 0
  // What differs: "statement", "event", "statuses", "failure", "path", "end" (one goes on, the other ends), "hang" (one
  // waits for ever, the other does not).
  std::string what;
  // Index of the first line that differs, in both: what is before agrees.
  size_t line = 0;
  std::vector<TraceLine> model;
  std::vector<TraceLine> real;
};

struct Comparison {
  enum class Outcome {
    kAgrees,
    kDiffers,
    kInconclusive,  // the real run cannot tell; `text` says why
  };
  Outcome outcome = Outcome::kAgrees;
  size_t statements = 0;  // compared and found equal, of all ranks; so are
  size_t events = 0;
  std::optional<Difference> difference = {};
  std::string text = {};
};

// The first difference of one rank; nothing if all that the real run shows agrees, or it cannot tell.
std::optional<Difference> difference_of_rank(const RunTrace& model, const RunTrace& real, int rank);

// `model`: of every rank (model_trace.h). A difference of an earlier statement goes before that of a later one, a hang,
// which may only follow from another rank's difference, after others of its statement.
Comparison compare(const RunTrace& model, const RunTrace& real);

}  // namespace zero3::sim
