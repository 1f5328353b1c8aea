#include "sim/report/words.h"

namespace zero3::sim {

std::string_view name(EventKind kind) {
  switch (kind) {
    case EventKind::kFetch: return "fetch";
    case EventKind::kAllGather: return "all-gather";
    case EventKind::kWait: return "wait";
    case EventKind::kPrefetch: return "prefetch";
    case EventKind::kPrefetchEnd: return "prefetch-end";
    case EventKind::kRelease: return "release";
    case EventKind::kKeep: return "keep";
    case EventKind::kInvalidate: return "invalidate";
    case EventKind::kRecord: return "record";
    case EventKind::kReset: return "reset";
    case EventKind::kResetDone: return "reset-done";
    case EventKind::kStepZero: return "step-zero";
    case EventKind::kPrint: return "print";
    case EventKind::kExternal: return "external";
  }
  return "?";
}

std::string_view name(Reason reason) {
  switch (reason) {
    case Reason::kNone: return "";
    case Reason::kNeeded: return "needed";
    case Reason::kPrefetched: return "prefetched";
    case Reason::kGatherContext: return "gather-context";
    case Reason::kPersistent: return "persistent";
    case Reason::kAccessed: return "accessed";
    case Reason::kNotReused: return "not-reused";
    case Reason::kTraceIncomplete: return "trace-incomplete";
    case Reason::kEndOfBackward: return "end-of-backward";
    case Reason::kPartitionAll: return "partition-all";
    case Reason::kCleaned: return "cleaned";
    case Reason::kLeftover: return "leftover";
    case Reason::kContextExit: return "context-exit";
    case Reason::kPersists: return "persists";
    case Reason::kUseSkipped: return "use-skipped";
    case Reason::kReusedSoon: return "reused-soon";
    case Reason::kStillActive: return "still-active";
    case Reason::kIsExternal: return "is-external";
    case Reason::kInFlight: return "in-flight";
    case Reason::kNotGathered: return "not-gathered";
    case Reason::kBucketFull: return "bucket-full";
    case Reason::kLiveLimit: return "live-limit";
    case Reason::kQueueEmpty: return "queue-empty";
    case Reason::kBucketZero: return "bucket-zero";
    case Reason::kNoTrace: return "no-trace";
    case Reason::kOtherModule: return "other-module";
    case Reason::kAlreadyInFlight: return "already-in-flight";
    case Reason::kEvaluating: return "evaluating";
  }
  return "?";
}

std::string_view rule_of(FailureKind kind) {
  switch (kind) {
    case FailureKind::kInflightAtReset:
      return "reset_step wants an empty in-flight registry, and a param leaves it only when a module that "
             "owns it is "
             "fetched: no later module of this iteration was one";
    case FailureKind::kPartitionInFlight:
      return "a param whose all-gather nobody has waited for cannot be partitioned, and GatheredParameters "
             "neither "
             "gathers nor waits for one that is already in flight";
    case FailureKind::kStillInFlight:
      return "everything is to be partitioned, and this release does not wait for what is in flight";
    case FailureKind::kExpectedReleased:
      return "everything was to be partitioned, and this param is in flight in a registry that the "
             "coordinator at work "
             "does not see";
    case FailureKind::kTracingError:
      return "the fetch queue follows the recorded trace, and its next params are not those of the module "
             "that runs";
    case FailureKind::kNotAvailable:
      return "the module needs the param, and nobody waits for it: it is in flight, but not in the registry "
             "of the coordinator at work, or it has no elements, for which alone nothing is gathered";
    case FailureKind::kFreeActive:
      return "a param that a module still counts as in use cannot be freed: that module's release never came";
    case FailureKind::kEvalBackward:
      return "this release's backward hooks refuse a module in evaluation mode";
    case FailureKind::kIndexError:
      return "the program and the recorded trace have parted: more modules run than were recorded, or their "
             "ids "
             "changed when hooks were registered again";
    case FailureKind::kNestedGather:
      return "this release allows one GatheredParameters context a param at a time";
    case FailureKind::kDisagreement:
      return "the ranks recorded different traces, and those unlike rank 0's raise";
    case FailureKind::kHang: return "a collective ends only when every rank joins it";
    case FailureKind::kMissingMethod: return "the object at hand has no such method in this release";
    case FailureKind::kNoGradient: return "there is no gradient to work with";
    case FailureKind::kGradientTwice: return "a param's gradient was computed twice in one backward";
    case FailureKind::kStatesOffloaded: return "the engine's states were offloaded, or cannot be";
    case FailureKind::kLeafInput: return "a leaf module has no input that requires grad";
    case FailureKind::kLoadMismatch: return "a checkpoint's params do not have the model's shapes";
    case FailureKind::kEmptyWeight: return "a partitioned weight holds no elements";
    default: return "";
  }
}

std::string flag_value_text(std::string_view value) {
  if (value.starts_with('"')) return std::string(value.substr(1, value.size() - 2));
  const size_t scope = value.rfind("::k");
  if (scope == std::string_view::npos) return std::string(value);
  std::string words;
  for (const char c : value.substr(scope + 3)) {
    const bool capital = c >= 'A' && c <= 'Z';
    if (capital && !words.empty()) words += '-';
    words += capital ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return words;
}

}  // namespace zero3::sim
