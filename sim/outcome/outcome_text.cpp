#include "sim/outcome/outcome_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace zero3::sim {

std::string outcome_text(const Outcome& outcome) {
  if (outcome.end == End::kLacking) return outcome.lacking + "\n";
  std::string text;
  if (outcome.failure) {
    const EndingFailure& failure = *outcome.failure;
    text = fmt::format("{}\n{}\nat: rank {}, step {} of the program ({}), in {}\n", name(failure.kind),
                       failure.text, failure.rank, failure.statement + 1, failure.statement_text,
                       fmt::join(failure.path, " > "));
  }
  for (const std::string& mix_up : outcome.wrong_data) text += "wrong data: " + mix_up + "\n";
  for (const SilentFault& fault : outcome.silent_faults()) {
    text += fmt::format("silent: {} ({}), from step {} on, {}\n", name(fault.kind), name(fault.consequence),
                        fault.statement + 1, fmt::join(fault.params, ", "));
  }
  return text.empty() ? "completes\n" : text;
}

std::string hanging(std::string text, size_t blanks) {
  for (size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 1))
    text.insert(at + 1, blanks, ' ');
  return text;
}

}  // namespace zero3::sim
