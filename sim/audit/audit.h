// What one rank's run moved and held, and what went wrong in it though DeepSpeed raises nothing.
//
// Told of every event while the run's own objects live. It judges by what happened to each param (gathered, used,
// released, how often), never by the release: a fault is found wherever a release shows it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/behaviour.h"
#include "coordinator/observer.h"
#include "coordinator/settings.h"
#include "sim/simulate.h"

namespace zero3::sim {

enum class SilentFaultKind {
  kStaleWeights,      // a module computes with weights from before the optimizer's update
  kUnreleasedParams,  // a module is never told that its backward is over: its params stay gathered until the step
  kPrefetchDisabled,    // the trace is invalidated again and again: nothing is prefetched any more
  kPrefetchThrownAway,  // prefetched params are released unused, and gathered again where they are needed
};

// The gravest last.
enum class Consequence { kHarmless, kSlower, kMemory, kWrongResult };

std::string_view name(SilentFaultKind kind);     // "stale-weights"
std::string_view name(Consequence consequence);  // "wrong result"
std::vector<std::string> silent_fault_names();

struct SilentFault {
  SilentFaultKind kind = SilentFaultKind::kStaleWeights;
  Consequence consequence = Consequence::kHarmless;
  size_t statement = 0;                  // where it shows first, in the rank's program
  size_t statements = 0;                 // in how many it shows
  std::vector<std::string> params = {};  // qualified names, in the order found
  // What it costs, where it does.
  double all_gathers_per_step = 0;          // launched beside those that a run without the fault launches
  double numel_per_step = 0;                // elements gathered by them
  double exposed_all_gathers_per_step = 0;  // launched where their params are needed, and waited for at once
  int64_t live_numel = 0;                   // elements that stay gathered until the step

  bool operator==(const SilentFault&) const = default;
};

struct Usage {
  int64_t all_gathers = 0;          // collectives launched
  int64_t exposed_all_gathers = 0;  // of them, where their params are needed: waited for at once
  int64_t gathered_numel = 0;       // elements, of full params
  int64_t peak_live_numel = 0;      // elements gathered or in flight at the same time
  int64_t optimizer_steps = 0;

  bool operator==(const Usage&) const = default;
};

// What one rank moved and held, and what went wrong though nothing was raised.
struct RankAudit {
  int rank = 0;
  Usage usage;
  std::vector<SilentFault> faults;

  bool operator==(const RankAudit&) const = default;
};

// The names of their kinds, each once, sorted.
std::vector<std::string> kinds_of(const std::vector<SilentFault>& faults);

class Audit final : public RankWatcher {
 public:
  Audit(const Settings& settings, const Behaviour& behaviour)
      : settings_(settings), gathers_singly_(behaviour.coordinator == Coordinator::kPrefetch) {}

  void on_event(const Event& event) override;
  void after_statement(const Statement& statement, const Failure* failure, const RankRunner& runner) override;

  const Usage& usage() const { return usage_; }
  // The gravest first.
  std::vector<SilentFault> faults() const;

 private:
  static constexpr size_t kNowhere = static_cast<size_t>(-1);
  struct Holding {
    bool live = false;
    bool outdated = false;                        // gathered before an update of it
    bool unused = false;                          // prefetched, and no module has fetched it since
    bool after_update = false;                    // of the step that is ending: what persists comes back then
    size_t thrown_away_in = kNowhere;             // the statement that released it unused
    const Module* used_in_backward_by = nullptr;  // the last to fetch it; null: a forward
    size_t launch = 0;
  };
  struct Launch {
    size_t params = 0;
    size_t repeated = 0;  // of them, thrown away and gathered again
  };
  struct StatementCounts {
    int64_t fetches = 0;
    int64_t needed = 0;      // all-gathers launched because a module needed them at once
    int64_t prefetched = 0;  // and ahead of that
    int64_t invalidations = 0;
  };
  // One fault in the making: where, and which params.
  struct Found {
    std::vector<size_t> statements;  // ascending
    std::vector<std::string> params;
    void add(size_t statement);
    void add(size_t statement, const Param& param);
    SilentFault as(SilentFaultKind kind, Consequence consequence) const;
  };

  Holding& holding(const Param& param);
  void gathered(const Event& event);
  void fetched(const Event& event);
  void released(const Event& event);
  void step_ended(const RankRunner& runner);
  void add_prefetch_disabled(std::vector<SilentFault>& faults) const;
  double per_step(double count) const;

  Settings settings_;
  bool gathers_singly_;  // the release launches one collective a param
  Usage usage_;
  int64_t live_numel_ = 0;
  std::vector<Holding> holdings_;  // by ds_id
  std::vector<Launch> launches_;
  std::vector<StatementCounts> statements_ = {{}};  // the last one is running
  std::vector<int64_t> engine_steps_;               // optimizer steps, by engine
  Found stale_;
  Found kept_;
  Found thrown_away_;
  int64_t kept_numel_ = 0;      // most in one statement
  int64_t kept_numel_now_ = 0;  // in the running one
  int64_t repeated_numel_ = 0;
};

}  // namespace zero3::sim
