#include "sim/leaf_race/fetch_threads.h"

#include <bit>

namespace zero3::sim {
namespace {

constexpr uint8_t kPrefetchHandle = kMaxRaceThreads;

bool has(uint8_t bits, int index) { return (bits & bit(index)) != 0; }
void add(uint8_t& bits, int index) { bits = static_cast<uint8_t>(bits | bit(index)); }

// The lowest index in `bits` from `from` on; -1: none.
int next_in(uint8_t bits, int from) {
  for (int i = from; i < kMaxRaceParams; ++i) {
    if (has(bits, i)) return i;
  }
  return -1;
}

// One step of one thread. Each function is named after the action it takes.
class Stepper {
 public:
  Stepper(const RaceSetup& setup, RaceState& state, int thread)
      : setup_(setup), state_(state), self_(state.threads[static_cast<size_t>(thread)]), number_(thread) {}

  RaceStep take() {
    step_.thread = number_;
    step_.action = self_.action;
    switch (self_.action) {
      case RaceAction::kEnterLock: enter_lock(); break;
      case RaceAction::kWaitEvent: become(RaceAction::kDone); break;
      case RaceAction::kReadNumel: read_numel(); break;
      case RaceAction::kChoose: choose(); break;
      case RaceAction::kRecheck:
        check(RaceStatus::kNotAvailable, RaceAction::kSetInflight, RaceFailure::kGatherPartitioned);
        break;
      case RaceAction::kSetInflight: set_inflight(); break;
      case RaceAction::kLaunch: launch(); break;
      case RaceAction::kCheckMade: check_made(); break;
      case RaceAction::kAssertInflight:
        check(RaceStatus::kInflight, RaceAction::kLookUp, RaceFailure::kRegisterInflight);
        break;
      case RaceAction::kLookUp: look_up(); break;
      case RaceAction::kCheckInflight:
        check(RaceStatus::kInflight, RaceAction::kStore, RaceFailure::kRegisterNotInflight);
        break;
      case RaceAction::kStore: store(); break;
      case RaceAction::kActivate: activate(); break;
      case RaceAction::kInRegistry: in_registry(); break;
      case RaceAction::kTake: take_handle(); break;
      case RaceAction::kDelete: delete_entry(); break;
      case RaceAction::kWait: wait(); break;
      case RaceAction::kAssertWaited: assert_waited(); break;
      case RaceAction::kSetAvailable: set_available(); break;
      case RaceAction::kComplete: complete(); break;
      case RaceAction::kAssertAvailable: assert_available(); break;
      case RaceAction::kSummary: summary(); break;
      case RaceAction::kLeaveLock: leave_lock(); break;
      case RaceAction::kDone: break;
    }
    return step_;
  }

  void begin_fetch() {
    if (setup_.params == 0) {
      finish();
    } else {
      become(RaceAction::kReadNumel, 0);
    }
  }

 private:
  RaceState::Param& param(int index) { return state_.params[static_cast<size_t>(index)]; }
  RaceState::Handle& handle(int index) { return state_.handles[static_cast<size_t>(index)]; }

  void become(RaceAction action) { self_.action = action; }
  void become(RaceAction action, int item) {
    self_.action = action;
    self_.item = static_cast<uint8_t>(item);
  }

  RaceStatus read(int index) {
    step_.param = index;
    step_.seen = param(index).status;
    return *step_.seen;
  }

  bool found(int index) {
    step_.param = index;
    step_.found = param(index).registered != 0;
    return *step_.found;
  }

  void fail(RaceFailure failure, int index) {
    self_.failure = failure;
    become(RaceAction::kSummary, index);
  }

  void check(RaceStatus right, RaceAction then, RaceFailure failure) {
    if (read(self_.item) == right) {
      become(then);
    } else {
      fail(failure, self_.item);
    }
  }

  // To the next param of the group, else on.
  bool next_of_group(RaceAction action) {
    const int next = next_in(self_.group, self_.item + 1);
    if (next < 0) return false;
    become(action, next);
    return true;
  }

  void enter_lock() {
    step_.found = state_.fetching != 0;
    if (*step_.found) {
      self_.handle = static_cast<uint8_t>(state_.fetching - 1);
      become(RaceAction::kWaitEvent);
    } else {
      state_.fetching = static_cast<uint8_t>(number_ + 1);
      begin_fetch();
    }
  }

  void leave_lock() {
    state_.fetching = 0;
    add(state_.events_set, number_);
    become(RaceAction::kDone);
  }

  void read_numel() {
    if (read(self_.item) == RaceStatus::kNotAvailable) self_.fetches = true;
    if (self_.item + 1 < setup_.params) {
      become(RaceAction::kReadNumel, self_.item + 1);
    } else if (self_.fetches) {
      become(RaceAction::kChoose, 0);
    } else {
      begin_wait(0);
    }
  }

  void choose() {
    if (read(self_.item) == RaceStatus::kNotAvailable) add(self_.group, self_.item);
    if (self_.item + 1 < setup_.params) {
      become(RaceAction::kChoose, self_.item + 1);
    } else if (self_.group != 0) {
      become(RaceAction::kRecheck, next_in(self_.group, 0));
    } else {
      begin_wait(0);
    }
  }

  void set_inflight() {
    step_.param = self_.item;
    param(self_.item).status = RaceStatus::kInflight;
    for (int i = 0; i < setup_.threads; ++i) {
      const RaceState::Thread& other = state_.threads[static_cast<size_t>(i)];
      if (i != number_ && other.action == RaceAction::kDone) state_.taken_back = true;
    }
    if (next_of_group(RaceAction::kRecheck)) return;
    if (!setup_.skips_gather) return become(RaceAction::kLaunch);
    handle(number_).params = self_.group;
    become(RaceAction::kCheckMade, next_in(self_.group, 0));
  }

  // A single param has the receiving buffer as its data at once.
  void launch() {
    handle(number_).params = self_.group;
    const int first = next_in(self_.group, 0);
    if (std::has_single_bit(self_.group)) param(first).full = true;
    become(RaceAction::kCheckMade, first);
  }

  void check_made() {
    if (read(self_.item) != RaceStatus::kInflight) return fail(RaceFailure::kHandleMade, self_.item);
    if (setup_.skips_gather) param(self_.item).full = true;
    if (!next_of_group(RaceAction::kCheckMade)) become(RaceAction::kAssertInflight, next_in(self_.group, 0));
  }

  void look_up() {
    if (found(self_.item)) {
      fail(RaceFailure::kAlreadyInRegistry, self_.item);
    } else {
      become(RaceAction::kCheckInflight);
    }
  }

  void store() {
    step_.param = self_.item;
    param(self_.item).registered = static_cast<uint8_t>(number_ + 1);
    if (!next_of_group(RaceAction::kAssertInflight)) begin_wait(0);
  }

  void begin_wait(int index) {
    if (index >= setup_.params) return finish();
    self_.param = static_cast<uint8_t>(index);
    become(RaceAction::kActivate);
  }

  void activate() {
    step_.param = self_.param;
    param(self_.param).active = true;
    become(RaceAction::kInRegistry);
  }

  void in_registry() { become(found(self_.param) ? RaceAction::kTake : RaceAction::kAssertAvailable); }

  void popped() {
    step_.failure = RaceFailure::kPoppedMeanwhile;
    become(RaceAction::kDone);
  }

  void take_handle() {
    if (!found(self_.param)) return popped();
    self_.handle = static_cast<uint8_t>(param(self_.param).registered - 1);
    become(RaceAction::kDelete);
  }

  void delete_entry() {
    if (!found(self_.param)) return popped();
    param(self_.param).registered = 0;
    become(RaceAction::kWait);
  }

  bool waits_for_one() { return std::has_single_bit(handle(self_.handle).params); }

  void wait() {
    const int first = next_in(handle(self_.handle).params, 0);
    if (waits_for_one()) return become(RaceAction::kSetAvailable, first);
    step_.found = handle(self_.handle).complete;
    if (*step_.found) {
      become(RaceAction::kAssertAvailable);
    } else {
      become(RaceAction::kAssertWaited, first);
    }
  }

  void assert_waited() {
    if (read(self_.item) != RaceStatus::kInflight) return fail(RaceFailure::kHandleWaited, self_.item);
    param(self_.item).full = true;
    become(RaceAction::kSetAvailable);
  }

  void set_available() {
    step_.param = self_.item;
    param(self_.item).status = RaceStatus::kAvailable;
    if (waits_for_one()) return become(RaceAction::kAssertAvailable);
    const int next = next_in(handle(self_.handle).params, self_.item + 1);
    if (next < 0) {
      become(RaceAction::kComplete);
    } else {
      become(RaceAction::kAssertWaited, next);
    }
  }

  void complete() {
    handle(self_.handle).complete = true;
    become(RaceAction::kAssertAvailable);
  }

  void assert_available() {
    if (read(self_.param) != RaceStatus::kAvailable) return fail(RaceFailure::kNotAvailable, self_.param);
    begin_wait(self_.param + 1);
  }

  void summary() {
    read(self_.item);
    step_.failure = self_.failure;
    become(RaceAction::kDone);
  }

  void finish() {
    self_.counted = true;
    become(setup_.fetch_lock ? RaceAction::kLeaveLock : RaceAction::kDone);
  }

  const RaceSetup& setup_;
  RaceState& state_;
  RaceState::Thread& self_;
  int number_;
  RaceStep step_;
};

}  // namespace

std::string_view name(RaceAction action) {
  switch (action) {
    case RaceAction::kEnterLock: return "enter-lock";
    case RaceAction::kWaitEvent: return "wait-event";
    case RaceAction::kReadNumel: return "read-numel";
    case RaceAction::kChoose: return "choose";
    case RaceAction::kRecheck: return "recheck";
    case RaceAction::kSetInflight: return "set-inflight";
    case RaceAction::kLaunch: return "launch";
    case RaceAction::kCheckMade: return "check-made";
    case RaceAction::kAssertInflight: return "assert-inflight";
    case RaceAction::kLookUp: return "look-up";
    case RaceAction::kCheckInflight: return "check-inflight";
    case RaceAction::kStore: return "store";
    case RaceAction::kActivate: return "activate";
    case RaceAction::kInRegistry: return "in-registry";
    case RaceAction::kTake: return "take";
    case RaceAction::kDelete: return "delete";
    case RaceAction::kWait: return "wait";
    case RaceAction::kAssertWaited: return "assert-waited";
    case RaceAction::kSetAvailable: return "set-available";
    case RaceAction::kComplete: return "complete";
    case RaceAction::kAssertAvailable: return "assert-available";
    case RaceAction::kSummary: return "summary";
    case RaceAction::kLeaveLock: return "leave-lock";
    case RaceAction::kDone: return "done";
  }
  return "";
}

std::string_view name(RaceFailure failure) {
  switch (failure) {
    case RaceFailure::kGatherPartitioned: return "gather-not-partitioned";
    case RaceFailure::kHandleMade: return "handle-not-inflight";
    case RaceFailure::kRegisterInflight: return "register-not-inflight";
    case RaceFailure::kAlreadyInRegistry: return "already-in-registry";
    case RaceFailure::kRegisterNotInflight: return "non-inflight-in-registry";
    case RaceFailure::kPoppedMeanwhile: return "popped-meanwhile";
    case RaceFailure::kHandleWaited: return "waited-not-inflight";
    case RaceFailure::kNotAvailable: return "not-available";
  }
  return "";
}

int RaceState::gathers() const {
  int launched = 0;
  for (int i = 0; i < kMaxRaceThreads; ++i) launched += handles[static_cast<size_t>(i)].params != 0 ? 1 : 0;
  return launched;
}

RaceState FetchThreads::start() const {
  RaceState state;
  for (int i = 0; setup_.prefetched && i < setup_.params; ++i) {
    RaceState::Param& param = state.params[static_cast<size_t>(i)];
    param.status = RaceStatus::kInflight;
    param.registered = kPrefetchHandle + 1;
    param.full = setup_.params == 1 || setup_.skips_gather;
    add(state.handles[kPrefetchHandle].params, i);
  }
  for (int i = 0; i < setup_.threads; ++i) {
    if (setup_.fetch_lock) {
      state.threads[static_cast<size_t>(i)].action = RaceAction::kEnterLock;
    } else {
      Stepper(setup_, state, i).begin_fetch();
    }
  }
  return state;
}

bool FetchThreads::done(const RaceState& state, int thread) const {
  return state.threads[static_cast<size_t>(thread)].action == RaceAction::kDone;
}

bool FetchThreads::runnable(const RaceState& state, int thread) const {
  const RaceState::Thread& self = state.threads[static_cast<size_t>(thread)];
  if (self.action == RaceAction::kWaitEvent) return has(state.events_set, self.handle);
  return self.action != RaceAction::kDone;
}

RaceStep FetchThreads::step(RaceState& state, int thread) const {
  return Stepper(setup_, state, thread).take();
}

}  // namespace zero3::sim
