#include "sim/fuzz/probe_judge.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "sim/run_file/run_file.h"
#include "sim/verify/verification.h"

namespace zero3::sim {
namespace {

constexpr size_t kLinesBefore = 10;

std::string first_word(const std::string& text) { return text.substr(0, text.find_first_of(" :")); }

// The same for differences of one kind: what differs, and the events or exceptions that stand against each other.
std::string way_of(const Difference& difference) {
  const auto word = [&](const std::vector<TraceLine>& lines) {
    return difference.line < lines.size() ? first_word(lines[difference.line].text) : std::string("nothing");
  };
  return fmt::format("{}: {} for {}", difference.what, word(difference.real), word(difference.model));
}

std::string lines_of(const Difference& difference) {
  std::string text = fmt::format("rank {}, statement {}\n", difference.rank, difference.statement);
  const size_t begin = difference.line - std::min(difference.line, kLinesBefore);
  for (size_t i = begin; i < difference.line; ++i) text += "    " + difference.model[i].text + "\n";
  const auto at = [&](const std::vector<TraceLine>& lines) {
    return difference.line < lines.size() ? lines[difference.line].text : std::string("(nothing)");
  };
  text += "  real:  " + at(difference.real) + "\n";
  text += "  model: " + at(difference.model) + "\n";
  return text;
}

Judgement undecided(Judgement::Kind kind, const std::string& why) {
  return {.kind = kind, .way = why.substr(0, why.find('\n'))};
}

}  // namespace

ProbeJudge::ProbeJudge(const ProbeOptions& options, const Release& release, uint64_t seed)
    : probe_(options), release_(release), seed_(seed) {}

Judgement ProbeJudge::judge(const Experiment& experiment, const std::string& name) {
  const Verification done = verify(experiment, name, seed_, release_, probe_);
  const Comparison& comparison = done.comparison;
  Judgement judgement;
  switch (comparison.outcome) {
    case Comparison::Outcome::kAgrees: break;
    case Comparison::Outcome::kInconclusive:
      switch (done.real.kind) {
        case ProbeAnswer::Kind::kTrace:
          judgement = undecided(Judgement::Kind::kInconclusive, comparison.text);
          break;
        case ProbeAnswer::Kind::kHung:
          judgement = undecided(Judgement::Kind::kTimedOut, comparison.text);
          break;
        default: judgement = undecided(Judgement::Kind::kDied, comparison.text);
      }
      break;
    case Comparison::Outcome::kDiffers:
      if (done.verdict() == Verdict::kHang) {
        judgement = undecided(Judgement::Kind::kTimedOut, "the real run waits for ever");
        break;
      }
      judgement = {.kind = Judgement::Kind::kDiffers,
                   .way = way_of(*comparison.difference),
                   .report = lines_of(*comparison.difference),
                   .real_trace = done.real.lines};
  }
  judgement.raised = done.model.result.failed();
  judgement.events = comparison.events;
  return judgement;
}

bool stops_recompute_early(const std::string& torch) {
  constexpr std::pair<int, int> kFirst = {2, 1};
  std::pair<int, int> numbers = {0, 0};
  const char* end = torch.data() + torch.size();
  const auto [dot, error] = std::from_chars(torch.data(), end, numbers.first);
  if (error == std::errc{} && dot < end && *dot == '.') std::from_chars(dot + 1, end, numbers.second);
  return numbers >= kFirst;
}

}  // namespace zero3::sim
