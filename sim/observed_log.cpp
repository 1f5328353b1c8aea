#include "sim/observed_log.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "coordinator/model.h"
#include "coordinator/param.h"

namespace zero3::sim {
namespace {

// The last part of a module's qualified name.
std::string short_name(const std::string& name) { return name.substr(name.rfind('.') + 1); }

std::string nested_name(const std::string& name) {
  const size_t last = name.rfind('.');
  if (last == std::string::npos) return "root." + name;
  const size_t before = name.rfind('.', last - 1);
  return before == std::string::npos ? name : name.substr(before + 1);
}

}  // namespace

std::string ObservedLog::param_name(const Param& param) const {
  if (naming_ == Naming::kNested) return nested_name(param.name);
  return short_name(param.name.substr(0, param.name.rfind('.')));
}

void ObservedLog::add(const std::string& item) { events_ += (events_.empty() ? "" : " ") + item; }

void ObservedLog::on_event(const Event& event) {
  switch (event.kind) {
    case EventKind::kFetch:
      add(fmt::format("[{}]fetch({})", event.step, short_name(event.module->name)));
      break;
    case EventKind::kAllGather: add_all_gather(event); break;
    case EventKind::kRelease: add_release(event); break;
    case EventKind::kInvalidate: add("INVALIDATE"); break;
    case EventKind::kReset: add("reset_step"); break;
    case EventKind::kResetDone: add(fmt::format("mode={}", event.text)); break;
    case EventKind::kStepZero: add("step:=0"); break;
    case EventKind::kPrint: printed_ += (printed_.empty() ? "" : " ") + std::string(event.text); break;
    default: break;
  }
}

void ObservedLog::add_all_gather(const Event& event) {
  if (event.reason != Reason::kNeeded && event.reason != Reason::kPrefetched) return;
  const bool v1 = behaviour_.coordinator == Coordinator::kPrefetch;
  std::string names;
  for (const Param* param : event.params) {
    if (naming_ == Naming::kNested && !names.empty()) names += ",";
    names += param_name(*param);
  }
  add(fmt::format("{}{{{}}}", v1 && event.reason == Reason::kPrefetched ? "PREFETCH" : "AG", names));
}

void ObservedLog::add_release(const Event& event) {
  if (event.reason == Reason::kContextExit) return;
  const bool end_of_backward = event.reason == Reason::kEndOfBackward;
  for (const Param* param : event.params) add((end_of_backward ? "RELALL " : "REL ") + param_name(*param));
}

std::string ObservedLog::take_events() { return std::exchange(events_, {}); }
std::string ObservedLog::take_printed() { return std::exchange(printed_, {}); }

std::string statuses_text(std::span<Param* const> params, Naming naming, const Behaviour& behaviour) {
  constexpr size_t kFlatShown = 4;
  const bool v1 = behaviour.coordinator == Coordinator::kPrefetch;
  std::string text;
  for (size_t i = 0; i < params.size(); ++i) {
    const Param& param = *params[i];
    if (naming == Naming::kFlat && i >= kFlatShown) break;
    const std::string name =
        naming == Naming::kNested ? nested_name(param.name) : param.name.substr(0, param.name.find('.'));
    const bool active = v1 ? param.active_count > 0 : !param.ds_active_sub_modules.empty();
    text += fmt::format("{}{}={}{}", text.empty() ? "" : " ", name, status_text(param.ds_status).substr(0, 1),
                        active ? "*" : "");
  }
  return text;
}

std::string shortened_text(const Failure& failure) {
  std::string text = failure.message();
  // {'id': 1, 'status': 'INFLIGHT', ... 'active_sub_modules': ...
  constexpr std::string_view kActive = "'active_sub_modules': ";
  constexpr std::string_view kStatus = "'status': '";
  for (size_t at = text.find("{'id': "); at != std::string::npos; at = text.find("{'id': ", at + 1)) {
    const size_t status = text.find(kStatus, at);
    const size_t first = text.find("', ", status + kStatus.size()) + 3;
    const size_t last = text.find(kActive, first);
    if (status == std::string::npos || last == std::string::npos) break;
    text.replace(first, last - first, "... ");
  }
  constexpr std::string_view kTensor = "tensor(";
  for (size_t at = text.find(kTensor); at != std::string::npos; at = text.find(kTensor, at + 1)) {
    const size_t inside = at + kTensor.size();
    text.replace(inside, text.find(')', inside) - inside, "...");
  }
  std::ranges::replace(text, '\n', ' ');
  return text;
}

std::string observed_line(const std::string& token, const Failure* failure, const std::string& statuses,
                          const std::string& printed, const std::string& events) {
  std::string outcome = "ok";
  if (failure != nullptr) {
    constexpr size_t kShownFrames = 3;
    const size_t skipped = failure->path.size() > kShownFrames ? failure->path.size() - kShownFrames : 0;
    std::string path;
    for (size_t i = skipped; i < failure->path.size(); ++i)
      path += (path.empty() ? "" : ">") + failure->path[i];
    outcome = fmt::format("FAIL {} @ {}", shortened_text(*failure), path);
  }
  return fmt::format("  {:<8} {} [{}] {} {}", token, outcome, statuses, printed, events);
}

}  // namespace zero3::sim
