// What happened, as it happens: every event of a rank, with the reason for each decision.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "coordinator/failure.h"

namespace zero3 {

struct Module;
struct Param;

enum class EventKind {
  kFetch,        // fetch_sub_module entered: module, step; forward or backward
  kAllGather,    // one coalesced launch: params (by ds_id; in launch order before v0.6.0), reason
  kWait,         // one param's handle waited on by module
  kPrefetch,     // one param chosen for prefetch: module that will use it, step it will be used at
  kPrefetchEnd,  // why choosing ended: reason, value = elements chosen, limit = the budget
  kRelease,      // one param partitioned: reason
  kKeep,         // one param kept at its module's release: reason; step or value where the reason has one
  kInvalidate,   // trace mode becomes INVALID: step, value = expected module id or -1, limit = trace length
  kRecord,       // module appended to the trace at step
  kReset,        // reset_step entered
  kResetDone,    // and done: text = the mode after it
  kStepZero,     // v1's reset_step
  kPrint,        // a line that DeepSpeed prints: text
  kExternal,     // a param registered as external to module
};

enum class Reason {
  kNone,
  // of an all-gather
  kNeeded,  // the module fetched now owns it
  kPrefetched,
  kGatherContext,  // GatheredParameters
  kPersistent,     // persistent params come back after a step, a save
  kAccessed,       // a weight read outside its module
  // of a release, and of a param kept
  kNotReused,        // trace complete, nothing holds it
  kTraceIncomplete,  // released at once while recording or invalid
  kEndOfBackward,
  kPartitionAll,  // step, save, load, empty cache
  kCleaned,       // in flight at a reset or invalidation (v0.15.3)
  kLeftover,      // still on the backward stack when backward ended (v0.19.3)
  kContextExit,   // GatheredParameters left
  kPersists,
  kUseSkipped,   // the prefetcher passed a later use of it: step
  kReusedSoon,   // used again within max_reuse_distance
  kStillActive,  // another module still uses it
  kIsExternal,
  kInFlight,
  kNotGathered,
  // of the end of a prefetch
  kBucketFull,
  kLiveLimit,
  kQueueEmpty,
  kBucketZero,
  kNoTrace,
  kOtherModule,      // v1: the trace has another module at this step
  kAlreadyInFlight,  // v1: earlier prefetches still in flight
  kEvaluating,       // v0.6.0-v0.6.1: prefetch in training only
};

struct Event {
  EventKind kind;
  Reason reason = Reason::kNone;
  const Module* module = nullptr;
  std::span<Param* const> params = {};
  int64_t step = -1;
  int64_t value = 0;
  int64_t limit = 0;
  bool forward = true;
  std::string_view text = {};
};

class Observer {
 public:
  virtual ~Observer() = default;
  // The event and what it points to live only during the call.
  virtual void on_event(const Event& event) = 0;
};

}  // namespace zero3
