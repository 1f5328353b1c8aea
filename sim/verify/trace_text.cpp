#include "sim/verify/trace_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace zero3::sim {

std::string text_of(const TraceEvent& event) {
  std::string text = event.event;
  if (!event.params.empty()) text += fmt::format(" {}", fmt::join(event.params, " "));
  if (event.module_id >= 0) {
    text += fmt::format("{} {}#{}", event.params.empty() ? "" : " for", event.module, event.module_id);
  }
  if (event.step >= 0) text += fmt::format(" [{}]", event.step);
  if (!event.pass.empty()) text += " " + event.pass;
  if (event.event == "invalidate")
    text += fmt::format(" expected #{} of {}", event.expected_module_id, event.trace_length);
  if (!event.reason.empty()) text += fmt::format(" ({})", event.reason);
  if (!event.text.empty()) text += ": " + event.text;
  return text;
}

std::string text_of(const TraceFailure& failure) { return failure.exception + ": " + failure.text; }

std::string text_of(const TraceStop& stop) {
  const std::string how = stop.kind == TraceStop::Kind::kDied ? "died" : "waits for ever";
  return stop.text.empty() ? how : how + ": " + stop.text;
}

}  // namespace zero3::sim
