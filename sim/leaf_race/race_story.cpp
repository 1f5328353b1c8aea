#include "sim/leaf_race/race_story.h"

#include <string_view>

#include <fmt/format.h>

namespace zero3::sim {
namespace {

// DeepSpeed's function in which the action happens.
std::string_view function_of(RaceAction action) {
  switch (action) {
    case RaceAction::kChoose:
    case RaceAction::kAssertInflight:
    case RaceAction::kLookUp:
    case RaceAction::kCheckInflight:
    case RaceAction::kStore: return "__all_gather_params_";
    case RaceAction::kRecheck:
    case RaceAction::kSetInflight:
    case RaceAction::kLaunch:
    case RaceAction::kCheckMade: return "all_gather_coalesced";
    case RaceAction::kWait:
    case RaceAction::kAssertWaited:
    case RaceAction::kSetAvailable:
    case RaceAction::kComplete: return "handle.wait";
    case RaceAction::kSummary: return "raises";
    default: return "fetch_sub_module";
  }
}

std::string words_of(const RaceStep& step, const std::string& param) {
  if (step.action == RaceAction::kSummary) return param + " is " + status_word(*step.seen);
  if (step.failure) return param + " is no longer in the registry: raises";
  if (step.seen) return param + " is " + status_word(*step.seen);
  const bool found = step.found.value_or(false);
  switch (step.action) {
    case RaceAction::kEnterLock: return found ? "another thread fetches" : "this thread fetches";
    case RaceAction::kWaitEvent: return "the other thread is done, returns";
    case RaceAction::kLeaveLock: return "done, lets other threads go on";
    case RaceAction::kSetInflight: return param + " becomes INFLIGHT";
    case RaceAction::kLaunch: return "launches the all-gather";
    case RaceAction::kLookUp:
    case RaceAction::kInRegistry: return param + (found ? " is in the registry" : " is not in the registry");
    case RaceAction::kStore: return param + " goes into the registry";
    case RaceAction::kActivate: return param + " is in use by the module";
    case RaceAction::kTake: return "takes the handle of " + param;
    case RaceAction::kDelete: return "removes " + param + " from the registry";
    case RaceAction::kWait: return found ? "the handle is complete" : "the params are gathered";
    case RaceAction::kSetAvailable: return param + " becomes AVAILABLE";
    case RaceAction::kComplete: return "the handle is complete";
    default: return "";
  }
}

}  // namespace

std::string status_word(RaceStatus status) {
  switch (status) {
    case RaceStatus::kNotAvailable: return "NOT_AVAILABLE";
    case RaceStatus::kInflight: return "INFLIGHT";
    case RaceStatus::kAvailable: return "AVAILABLE";
  }
  return "";
}

std::vector<std::string> statuses_of(uint8_t bits) {
  std::vector<std::string> words;
  for (const RaceStatus status : {RaceStatus::kNotAvailable, RaceStatus::kInflight, RaceStatus::kAvailable}) {
    if ((bits >> static_cast<unsigned>(status) & 1U) != 0) words.push_back(status_word(status));
  }
  return words;
}

std::vector<std::string> story_lines(const RacingLeaf& leaf, const RaceStory& story) {
  std::vector<std::string> lines;
  std::string opening;
  for (const RaceStep& step : story.steps) {
    const std::string words = words_of(step, step.param < 0 ? "" : leaf.local_name(step.param));
    std::string own = fmt::format("thread {}  {}: ", step.thread + 1, function_of(step.action));
    if (own == opening) {
      lines.back() += ", " + words;
    } else {
      opening = own;
      lines.push_back(std::move(own) + words);
    }
  }
  return lines;
}

}  // namespace zero3::sim
