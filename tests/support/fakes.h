// The coordinator's two interfaces to the outside, faked: ranks that answer as told, and an observer that keeps it all.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coordinator/behaviour.h"
#include "coordinator/communicator.h"
#include "coordinator/model.h"
#include "coordinator/observer.h"

namespace zero3::test {

// The last part of a module's name; the root has none of its own.
inline std::string short_name(const Module* module) {
  if (module == nullptr) return "-";
  return module->name.empty() ? "root" : module->name.substr(module->name.rfind('.') + 1);
}

// "B" for B.weight, as the observed logs write it; "B.p1" for another param of B; "weight" for the root's.
inline std::string short_name(const Param& param) {
  const size_t dot = param.name.rfind('.');
  if (dot == std::string::npos) return param.name;
  const std::string module = param.name.substr(0, dot);
  const std::string last = module.substr(module.rfind('.') + 1);
  return param.name.substr(dot) == ".weight" ? last : last + param.name.substr(dot);
}

inline std::string joined(const std::vector<std::string>& parts, std::string_view between) {
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty()) text += between;
    text += part;
  }
  return text;
}

inline std::string names_of(std::span<Param* const> params) {
  std::vector<std::string> names;
  for (const Param* param : params) names.push_back(short_name(*param));
  const bool letters = std::ranges::all_of(names, [](const std::string& name) { return name.size() == 1; });
  return joined(names, letters ? "" : ",");
}

// Logs every call as text. Everything succeeds, and rank 0 agrees, unless told otherwise.
class FakeCommunicator final : public Communicator {
 public:
  FakeCommunicator(int rank, int world_size) : rank_(rank), world_size_(world_size) {}

  std::vector<std::string> log;                    // "all_gather AB", "wait", "broadcast B from 0", ...
  std::deque<std::vector<int64_t>> rank0_answers;  // to the next broadcasts of ints, in order

  // From now on a call whose log line is `call` fails with a hang.
  void hang_in(std::string call) { hanging_ = std::move(call); }
  void clear() { log.clear(); }

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  Raised launch_all_gather(std::span<Param* const> params, Request& request) override {
    request = next_request_++;
    return called("all_gather " + names_of(params));
  }
  Raised wait(Request) override { return called("wait"); }
  Raised broadcast(const Param& param, int source_rank) override {
    return called("broadcast " + short_name(param) + " from " + std::to_string(source_rank));
  }
  Raised broadcast_ints(std::span<const int64_t> own, std::vector<int64_t>& of_rank0) override {
    std::vector<std::string> ints;
    for (const int64_t value : own) ints.push_back(std::to_string(value));
    of_rank0.assign(own.begin(), own.end());
    if (!rank0_answers.empty()) {
      of_rank0 = rank0_answers.front();
      rank0_answers.pop_front();
    }
    return called("broadcast_ints [" + joined(ints, ", ") + "]");
  }
  Raised reduce_scatter(std::span<Param* const> params) override {
    return called("reduce_scatter " + names_of(params));
  }

 private:
  Raised called(const std::string& call) {
    log.push_back(call);
    return call == hanging_ ? raise(FailureKind::kHang, "Hang", "rank 1 never joins " + call) : nullptr;
  }

  int rank_;
  int world_size_;
  Request next_request_ = 0;
  std::string hanging_;
};

// An Event with its pointers turned to names: it outlives the call.
struct RecordedEvent {
  EventKind kind;
  Reason reason;
  std::string module;
  std::string params;  // "AB"
  int64_t step;
  int64_t value;
  int64_t limit;
  bool forward;
  std::string text;
};

class RecordingObserver final : public Observer {
 public:
  std::vector<RecordedEvent> events;

  void on_event(const Event& event) override {
    events.push_back({event.kind, event.reason, short_name(event.module), names_of(event.params), event.step,
                      event.value, event.limit, event.forward, std::string(event.text)});
  }

  // What the logs of real releases show (tests/golden/observed/README.md), on one line.
  std::string log() const {
    std::vector<std::string> items;
    for (const RecordedEvent& event : events) {
      switch (event.kind) {
        case EventKind::kFetch:
          items.push_back("[" + std::to_string(event.step) + "]fetch(" + event.module + ")");
          break;
        case EventKind::kAllGather: items.push_back("AG{" + event.params + "}"); break;
        case EventKind::kRelease: items.push_back("REL " + event.params); break;
        case EventKind::kInvalidate: items.emplace_back("INVALIDATE"); break;
        case EventKind::kResetDone: items.push_back("reset " + event.text); break;
        case EventKind::kStepZero: items.emplace_back("step:=0"); break;
        default: break;
      }
    }
    return joined(items, " ");
  }

  std::vector<std::string> printed() const {
    std::vector<std::string> lines;
    for (const RecordedEvent& event : events) {
      if (event.kind == EventKind::kPrint) lines.push_back(event.text);
    }
    return lines;
  }

  std::vector<RecordedEvent> all(EventKind kind, std::string_view params = "") const {
    std::vector<RecordedEvent> found;
    for (const RecordedEvent& event : events) {
      if (event.kind == kind && (params.empty() || event.params == params)) found.push_back(event);
    }
    return found;
  }

  // Of the last such event; kNone if there was none.
  Reason reason(EventKind kind, std::string_view params = "") const {
    const std::vector<RecordedEvent> found = all(kind, params);
    return found.empty() ? Reason::kNone : found.back().reason;
  }
};

}  // namespace zero3::test
