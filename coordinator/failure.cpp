#include "coordinator/failure.h"

namespace zero3 {
namespace {

struct Names {
  std::string_view code;
  std::string_view name;
};

Names names(FailureKind kind) {
  switch (kind) {
    case FailureKind::kInflightAtReset: return {"IF", "inflight-at-reset"};
    case FailureKind::kPartitionInFlight: return {"CP", "partition-in-flight"};
    case FailureKind::kStillInFlight: return {"SIF", "still-in-flight"};
    case FailureKind::kExpectedReleased: return {"ETBR", "expected-released"};
    case FailureKind::kTracingError: return {"TE", "tracing-error"};
    case FailureKind::kNotAvailable: return {"NOTAVAIL", "not-available"};
    case FailureKind::kFreeActive: return {"FREE", "free-active"};
    case FailureKind::kEvalBackward: return {"EVAL", "eval-backward"};
    case FailureKind::kIndexError: return {"IDX", "index-error"};
    case FailureKind::kAlreadyGathering: return {"GATHER", "already-gathering"};
    case FailureKind::kNotInflight: return {"NOTINFL", "not-inflight"};
    case FailureKind::kAlreadyInRegistry: return {"INREG", "already-in-registry"};
    case FailureKind::kNoActiveBackward: return {"NOBWD", "no-active-backward"};
    case FailureKind::kNestedGather: return {"NESTED", "nested-gather"};
    case FailureKind::kDisagreement: return {"DISAGREE", "disagreement"};
    case FailureKind::kHang: return {"HANG", "hang"};
    case FailureKind::kMissingMethod: return {"ATTR", "missing-method"};
    case FailureKind::kNoGradient: return {"NOGRAD", "no-gradient"};
    case FailureKind::kGradientTwice: return {"TWICE", "gradient-twice"};
    case FailureKind::kStatesOffloaded: return {"OFFLOAD", "states-offloaded"};
    case FailureKind::kLeafInput: return {"LEAF", "leaf-input"};
    case FailureKind::kLoadMismatch: return {"LOAD", "load-mismatch"};
    case FailureKind::kEmptyWeight: return {"EMPTY", "empty-weight"};
    case FailureKind::kWeightModified: return {"MODIFIED", "weight-modified"};
    case FailureKind::kInternal: return {"INTERNAL", "internal"};
  }
  return {"?", "?"};
}

}  // namespace

void Failure::add_outer(std::string_view function) { path.insert(path.begin(), std::string(function)); }

std::string_view code(FailureKind kind) { return names(kind).code; }
std::string_view name(FailureKind kind) { return names(kind).name; }

}  // namespace zero3
