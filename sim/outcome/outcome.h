// What became of one program on one release and so many ranks, as plain data that outlives the run: how it ended, what
// it moved and held, what went wrong in it silently. Two runs came to the same if their outcomes are equal.
//
// It is of the model alone; sim/verify holds a model against an installed DeepSpeed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/behaviour.h"
#include "coordinator/failure.h"
#include "coordinator/release.h"
#include "sim/audit/audit.h"
#include "sim/program.h"
#include "sim/simulate.h"

namespace zero3::sim {

// The gravest last, but kLacking: that one says nothing of the program.
enum class End {
  kCompletes,
  kFails,
  kHangs,
  kWrongData,  // completes, and data of one parameter was taken for another's
  kLacking,    // the release has not everything that the program uses: nothing ran
};

std::string_view name(End end);  // "completes", "fails", "hangs", "wrong-data", "lacking"

// What was raised first of all ranks, or what a rank waits for in a hang.
struct EndingFailure {
  FailureKind kind = FailureKind::kInternal;
  std::string text;  // "RuntimeError: still have inflight params [...]"
  int rank = 0;
  size_t statement = 0;  // index in that rank's program
  std::string statement_text;
  std::vector<std::string> path = {};                // DeepSpeed's functions, outermost first
  std::vector<RankFailure::NamedParam> params = {};  // those that the text names, in its order

  bool operator==(const EndingFailure&) const = default;
};

struct Outcome {
  End end = End::kCompletes;
  std::optional<EndingFailure> failure = {};  // kFails, kHangs
  std::vector<std::string> wrong_data = {};  // each mix-up in words; a run that fails later may have some too
  std::string lacking = {};                  // "DeepSpeed 0.9.5 has no leaf modules"
  std::vector<std::string> printed = {};     // by rank 0
  std::vector<RankAudit> audits = {};        // of one rank of each kind, by rank; empty if none was asked for

  bool operator==(const Outcome&) const = default;

  // On any rank, the gravest first; the kinds of them, each once, sorted.
  std::vector<SilentFault> silent_faults() const;
  std::vector<std::string> silent_kinds() const;
  // Nothing but harmless faults.
  bool good() const;
};

// Whether both end alike: the same end, the same failure at the same statement of the same rank, the same kinds of
// silent faults worse than harmless. Texts, call paths, costs and what is printed may differ.
bool end_alike(const Outcome& a, const Outcome& b);

// The end in a word, for the cell of a table: "ok", a failure's name ("inflight-at-reset", "hang"), "wrong-data",
// "lacking"; a run that completes with a fault worse than harmless has the name of the gravest ("stale-weights").
std::string cell_word(const Outcome& outcome);
// The same in few letters, for a table of many columns: "ok", a failure's code ("IF", "HANG"), "DATA", "-", "STALE".
std::string cell_code(const Outcome& outcome);

struct OutcomeOptions {
  uint64_t seed = 0;  // of hash order
  std::optional<Behaviour> behaviour =
      {};                        // another than the release's; what is lacking is the release's all the same
  bool runs_what_lacks = false;  // what the release lacks raises, as a program expects that tests just this
  bool audited = true;           // else without audits: about twice as fast
};

Outcome outcome_of(const Experiment& experiment, const Release& release, const OutcomeOptions& options = {});

// The end alone of a run of the experiment: `printed` and `audits` are the caller's to set.
Outcome end_of(const Experiment& experiment, const SimulationResult& result);

struct ReleaseOutcome {
  Release release;
  Outcome outcome;
};

// The same on several releases, in their order. A release in which nothing changed since the one before it is not run
// again. `options.behaviour` must be empty.
std::vector<ReleaseOutcome> outcomes_on(const Experiment& experiment, std::span<const Release> releases,
                                        const OutcomeOptions& options = {});

}  // namespace zero3::sim
