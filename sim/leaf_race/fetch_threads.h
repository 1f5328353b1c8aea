// Threads that run the pre-backward hook of one leaf module at the same time, step by step.
//
// A step reads or writes one thing that the threads share (a param's ds_status, its place in the registry of params in
// flight, a handle), as the line of DeepSpeed's fetch_sub_module, all_gather_coalesced or handle does that is named at
// it, and goes on up to the next such thing. Between two steps any other thread may run: what Python's interpreter
// lock allows, and no less. Traced prefetch, after the fetch, is not part of it; nor are streams and events of a GPU.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace zero3::sim {

constexpr int kMaxRaceParams = 8;
constexpr int kMaxRaceThreads = 4;

// A set of small numbers, such as params, with `index` alone.
inline uint8_t bit(int index) { return static_cast<uint8_t>(1U << static_cast<unsigned>(index)); }

struct RaceSetup {
  int params = 2;   // of the leaf that are partitioned when the backward begins, at most kMaxRaceParams
  int threads = 2;  // at most kMaxRaceThreads
  bool fetch_lock = false;    // Behaviour::leaf_fetch_lock: one thread fetches, others wait for it
  bool skips_gather = false;  // one rank: the partition is copied, no collective is launched
  bool prefetched = false;    // all params are in flight in one all-gather that a prefetch launched

  bool operator==(const RaceSetup&) const = default;
};

// What a thread does next.
enum class RaceAction : uint8_t {
  kEnterLock,  // fetch_sub_module: is another thread fetching this leaf? else this one is (v0.18.6 and later)
  kWaitEvent,  // ... waits for that thread, and returns
  kReadNumel,  // fetch_sub_module: the status of a param, to know whether anything is to be gathered
  kChoose,     // __all_gather_params_: the status of a param, to know whether it is to be gathered
  kRecheck,    // all_gather_coalesced: the status of a chosen param, once more
  kSetInflight,      // all_gather_coalesced: the param is INFLIGHT
  kLaunch,           // all_gather_coalesced: the collective is launched
  kCheckMade,        // the new handle: the status of each param
  kAssertInflight,   // __all_gather_params_: the status, before the param is registered
  kLookUp,           // InflightParamRegistry.__setitem__: is the param registered?
  kCheckInflight,    // ...: its status
  kStore,            // ...: it is registered
  kActivate,         // fetch_sub_module: ds_active_sub_modules.add
  kInRegistry,       // fetch_sub_module: is the param in the registry?
  kTake,             // registry.pop: its handle
  kDelete,           // registry.pop: out of the registry
  kWait,             // handle.wait: the collective, unless the handle is complete
  kAssertWaited,     // handle.wait: the status of each param
  kSetAvailable,     // handle.wait: the param is AVAILABLE
  kComplete,         // handle.wait: the handle is complete
  kAssertAvailable,  // fetch_sub_module: the status of the param that was waited for
  kSummary,          // ds_summary() for the text of the exception that a check led to
  kLeaveLock,        // fetch_sub_module: other threads go on
  kDone,
};

// "recheck", "set-inflight", ...: in JSON and in docs/leaf-races.md.
std::string_view name(RaceAction action);

// Which check or look-up of DeepSpeed raises.
enum class RaceFailure : uint8_t {
  kGatherPartitioned,  // all_gather_coalesced: RuntimeError, the summary
  kHandleMade,  // a new handle: RuntimeError, expected param {...} to be available / to not be available
  kRegisterInflight,     // __all_gather_params_: AssertionError, the summary
  kAlreadyInRegistry,    // RuntimeError, {...} already in registry
  kRegisterNotInflight,  // RuntimeError, attempted to add non-inflight parameter to registry {...}
  kPoppedMeanwhile,      // KeyError, the parameter
  kHandleWaited,         // handle.wait: AssertionError, expected param {...} to be inflight
  kNotAvailable,         // fetch_sub_module: AssertionError, the summary
};

// "already-in-registry", ...
std::string_view name(RaceFailure failure);

enum class RaceStatus : uint8_t { kNotAvailable, kInflight, kAvailable };

// All that the threads share, and where each of them is. Bytes alone: compared and hashed as they are.
struct RaceState {
  struct Param {
    RaceStatus status;
    uint8_t registered;  // 0: not; else its handle + 1
    bool full;           // param.data has all elements
    bool active;         // ds_active_sub_modules has the leaf

    bool operator==(const Param&) const = default;
  };
  struct Handle {
    uint8_t params;  // bits
    bool complete;

    bool operator==(const Handle&) const = default;
  };
  struct Thread {
    RaceAction action;
    RaceFailure failure;  // of kSummary
    uint8_t param;        // of the loop over all params
    uint8_t item;         // of the loop over a group or a handle
    uint8_t group;        // bits: those this thread gathers
    uint8_t handle;       // taken from the registry; kWaitEvent: the thread waited for
    bool fetches;         // has seen a param that is NOT_AVAILABLE
    bool counted;         // has raised the step id

    bool operator==(const Thread&) const = default;
  };

  std::array<Param, kMaxRaceParams> params = {};
  std::array<Handle, kMaxRaceThreads + 1> handles =
      {};  // by the thread that launched it; the last: a prefetch's
  std::array<Thread, kMaxRaceThreads> threads = {};
  uint8_t fetching = 0;     // 0: no thread holds the leaf; else its number + 1
  uint8_t events_set = 0;   // bits by thread
  bool taken_back = false;  // a param became INFLIGHT although a thread had finished its fetch

  bool operator==(const RaceState&) const = default;
  int gathers() const;  // launched by the threads
};

// One step that was taken: what, on which param (-1: none), and the status it read.
struct RaceStep {
  int thread = 0;
  RaceAction action = RaceAction::kDone;
  int param = -1;
  std::optional<RaceStatus> seen = {};
  std::optional<bool> found = {};           // of a look-up; of kEnterLock: another thread is fetching
  std::optional<RaceFailure> failure = {};  // raised in this step

  bool operator==(const RaceStep&) const = default;
};

class FetchThreads {
 public:
  explicit FetchThreads(RaceSetup setup) : setup_(setup) {}

  const RaceSetup& setup() const { return setup_; }
  RaceState start() const;
  bool done(const RaceState& state, int thread) const;
  bool runnable(const RaceState& state, int thread) const;
  // Takes the thread's next step. Precondition: it is runnable.
  RaceStep step(RaceState& state, int thread) const;

 private:
  RaceSetup setup_;
};

}  // namespace zero3::sim
