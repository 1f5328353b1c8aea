#include "sim/report/story.h"

#include <algorithm>

#include <fmt/format.h>

namespace zero3::sim {
namespace {

constexpr size_t kMaxStoryLines = 12;
constexpr size_t kMaxNamedInStory = 4;

bool concerns(const RecordedEvent& event, int ds_id) {
  return std::ranges::find(event.ds_ids, ds_id) != event.ds_ids.end();
}

class Story {
 public:
  Story(const Recording& recording, int ds_id) : recording_(recording), ds_id_(ds_id) {}

  std::vector<std::string> tell() {
    const auto& events = recording_.events;
    size_t first = 0;
    for (size_t i = 0; i < events.size(); ++i) {
      if (events[i].kind == EventKind::kRelease && concerns(events[i], ds_id_)) first = i;
    }
    for (size_t i = 0; i < events.size(); ++i) {
      const RecordedEvent& event = events[i];
      if (event.kind == EventKind::kFetch) fetching_ = &event;
      if (i >= first) tell_event(event);
    }
    if (lines_.size() > kMaxStoryLines) {
      const size_t dropped = lines_.size() - kMaxStoryLines + 1;
      lines_.erase(lines_.begin() + 1, lines_.begin() + static_cast<std::ptrdiff_t>(dropped));
      lines_.insert(lines_.begin() + 1, "...");
    }
    return std::move(lines_);
  }

 private:
  void add(const RecordedEvent& event, const std::string& text, bool in_fetch = false) {
    std::string where = fmt::format("step {} ({})", event.statement + 1, statement_text(event.statement));
    if (in_fetch && fetching_ != nullptr) {
      where += fmt::format(", [{}]fetch({}) in {}", fetching_->step, fetching_->module,
                           fetching_->forward ? "forward" : "backward");
    }
    lines_.push_back(where + ": " + text);
  }

  std::string statement_text(size_t index) const {
    return index < recording_.statements.size() ? recording_.statements[index] : "";
  }

  void tell_event(const RecordedEvent& event) {
    switch (event.kind) {
      case EventKind::kPrefetch:
        if (concerns(event, ds_id_)) planned_ = &event;
        break;
      case EventKind::kAllGather: tell_gather(event); break;
      case EventKind::kWait: tell_wait(event); break;
      case EventKind::kInvalidate: tell_invalidation(event); break;
      case EventKind::kRelease:
        if (concerns(event, ds_id_)) add(event, fmt::format("partitioned ({})", release_words(event.reason)));
        break;
      case EventKind::kKeep: tell_kept(event); break;
      default: break;
    }
  }

  void tell_gather(const RecordedEvent& event) {
    if (!concerns(event, ds_id_)) return;
    const bool alone = recording_.gathers_singly && event.reason == Reason::kPrefetched;
    group_ = alone ? std::vector<int>{ds_id_} : event.ds_ids;
    gathered_ = true;
    waited_ = false;
    std::string text = "gathered";
    switch (event.reason) {
      case Reason::kPrefetched:
        text = "prefetched";
        if (planned_ != nullptr) {
          text +=
              fmt::format(", because the trace uses it at step id {} ({})", planned_->step, planned_->module);
        }
        break;
      case Reason::kNeeded: text += ", because the module fetched owns it"; break;
      case Reason::kGatherContext: text += " by GatheredParameters"; break;
      case Reason::kPersistent: text += ", because persistent params come back after a step or a save"; break;
      case Reason::kAccessed: text += fmt::format(", because {} read it", event.module); break;
      default: break;
    }
    if (group_.size() > 1) text += fmt::format("; one all-gather with {}", others());
    add(event, text, event.reason == Reason::kPrefetched || event.reason == Reason::kNeeded);
  }

  std::string others() const {
    std::string names;
    size_t named = 0;
    for (const int id : group_) {
      if (id == ds_id_) continue;
      if (++named > kMaxNamedInStory) continue;
      names += (names.empty() ? "" : ", ") + recording_.param_name(id);
    }
    return named > kMaxNamedInStory ? fmt::format("{} and {} more", names, named - kMaxNamedInStory) : names;
  }

  void tell_wait(const RecordedEvent& event) {
    if (!gathered_ || waited_) return;
    if (concerns(event, ds_id_)) {
      waited_ = true;
      add(event, "waited for: AVAILABLE", true);
      return;
    }
    const auto sibling = std::ranges::find_if(
        event.ds_ids, [&](int id) { return std::ranges::find(group_, id) != group_.end(); });
    if (sibling == event.ds_ids.end() || group_.size() < 2) return;
    waited_ = true;
    add(event,
        fmt::format(
            "AVAILABLE, because {} of the same all-gather was waited for; it stays registered as in flight",
            recording_.param_name(*sibling)),
        true);
  }

  void tell_invalidation(const RecordedEvent& event) {
    if (!gathered_) return;
    if (event.value < 0) {
      add(event, event.module_id < 0
                     ? "the trace was invalidated: hooks were registered again"
                     : fmt::format("the trace was invalidated: it has only {} modules", event.limit));
      return;
    }
    add(event, fmt::format("the trace was invalidated at step id {}: expected {}, but got {} (module {})",
                           event.step, recording_.module_text(event.value), event.module, event.module_id));
  }

  void tell_kept(const RecordedEvent& event) {
    if (!concerns(event, ds_id_) || event.reason == Reason::kNotGathered || event.reason == Reason::kInFlight)
      return;
    std::string text = fmt::format("kept when {} released it: ", event.module);
    switch (event.reason) {
      case Reason::kPersists: text += "it is persistent"; break;
      case Reason::kUseSkipped:
        text += fmt::format("the prefetcher passed its use at step id {}", event.step);
        break;
      case Reason::kReusedSoon: text += "it is used again within max_reuse_distance"; break;
      case Reason::kStillActive:
        text += event.value < 0 ? "another module still uses it"
                                : fmt::format("{} still uses it", recording_.module_text(event.value));
        break;
      case Reason::kIsExternal: text += "it is an external param"; break;
      default: return;
    }
    add(event, text);
  }

  static std::string_view release_words(Reason reason) {
    switch (reason) {
      case Reason::kNotReused: return "no use of it is near";
      case Reason::kTraceIncomplete: return "no complete trace: everything goes at once";
      case Reason::kEndOfBackward: return "end of backward";
      case Reason::kPartitionAll: return "everything is partitioned here";
      case Reason::kCleaned: return "cleaned from the in-flight registry";
      case Reason::kLeftover: return "left over when backward ended";
      case Reason::kContextExit: return "GatheredParameters left";
      default: return "";
    }
  }

  const Recording& recording_;
  int ds_id_;
  const RecordedEvent* fetching_ = nullptr;
  const RecordedEvent* planned_ = nullptr;
  std::vector<int> group_;
  bool gathered_ = false;
  bool waited_ = false;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> story_of(const Recording& recording, int ds_id) {
  return Story(recording, ds_id).tell();
}

}  // namespace zero3::sim
