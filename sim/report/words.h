// Events and reasons in words.
#pragma once

#include <string>
#include <string_view>

#include "sim/report/recording.h"

namespace zero3::sim {

// The name in traces and JSON: "fetch", "all-gather", ...
std::string_view name(EventKind kind);
std::string_view name(Reason reason);

// A flag's value as people read it: "OnInflight::kWaitAndRelease" as "wait-and-release".
std::string flag_value_text(std::string_view value);

// Why the release refuses: one sentence about the failure's rule.
std::string_view rule_of(FailureKind kind);

}  // namespace zero3::sim
