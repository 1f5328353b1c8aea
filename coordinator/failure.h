// A failure that DeepSpeed (or torch under it) would raise, as a value.
//
// It travels up the calls of one rank as a Raised and never crosses ranks. The text is what the exception's str()
// shows in that release; the call path names DeepSpeed's own functions, outermost first.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace zero3 {

struct Param;

enum class FailureKind {
  kInflightAtReset,    // IF: still have inflight params
  kPartitionInFlight,  // CP: Cannot partition a param in flight
  kStillInFlight,      // SIF: param {...} still in flight
  kExpectedReleased,   // ETBR: {...} expected to be released
  kTracingError,       // TE: tracing error at step
  kNotAvailable,       // NOTAVAIL: assert AVAILABLE in fetch
  kFreeActive,         // FREE: free_param of an active param
  kEvalBackward,       // EVAL: backward pass is invalid for module in evaluation mode
  kIndexError,         // IDX: list / tuple index out of range, pop from an empty deque
  kAlreadyGathering,   // all_gather_coalesced of a param that is not NOT_AVAILABLE
  kNotInflight,        // expected param {...} to be inflight
  kAlreadyInRegistry,  // {...} already in registry
  kNoActiveBackward,   // active_backward_submodules is empty during backward pass
  kNestedGather,       // Nested GatheredParameters contexts cannot overlap parameters
  kDisagreement,       // disagreement between rank0 and rankN
  kHang,               // a collective that some rank never joins
  kMissingMethod,      // AttributeError: this release's object has no such method
  kNoGradient,         // step without gradients, loss without grad_fn
  kGradientTwice,      // a param in the gradient bucket twice
  kStatesOffloaded,    // training on offloaded states, or states that cannot be offloaded
  kLeafInput,          // a leaf module none of whose inputs requires grad
  kLoadMismatch,       // size mismatch while a checkpoint is loaded
  kEmptyWeight,        // a partitioned weight used in a computation
  kWeightModified,     // a weight that backward needs was loaded over since its forward
  kInternal,           // asserts of DeepSpeed that no program is known to reach
};

// The short code used in tables: IF, CP, SIF, ...
std::string_view code(FailureKind kind);
// The name used in JSON and in scenario files: inflight-at-reset, partition-in-flight, ...
std::string_view name(FailureKind kind);

struct Failure {
  FailureKind kind = FailureKind::kInternal;
  std::string exception;             // Python's type: RuntimeError, AssertionError, ...
  std::string text;                  // str(exception), exactly
  std::vector<std::string> path;     // DeepSpeed's functions, outermost first
  std::vector<const Param*> params;  // those that the text names

  std::string message() const { return exception + ": " + text; }
  void add_outer(std::string_view function);
};

// Null: nothing was raised.
using Raised = std::unique_ptr<Failure>;

inline Raised raise(FailureKind kind, std::string exception, std::string text,
                    std::vector<const Param*> params = {}) {
  return std::make_unique<Failure>(
      Failure{kind, std::move(exception), std::move(text), {}, std::move(params)});
}

inline Raised list_index_out_of_range() {
  return raise(FailureKind::kIndexError, "IndexError", "list index out of range");
}

// Adds the function that a failure passed through on its way up; hands the failure on.
inline Raised through(Raised raised, std::string_view function) {
  if (raised) raised->add_outer(function);
  return raised;
}
// The same of several, the innermost first.
inline Raised through(Raised raised, std::initializer_list<std::string_view> functions) {
  for (const std::string_view function : functions) raised = through(std::move(raised), function);
  return raised;
}

}  // namespace zero3
