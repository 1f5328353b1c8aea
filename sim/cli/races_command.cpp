// zero3sim races: threads that run the backward hook of one leaf module at the same time.
#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/bad_input.h"
#include "sim/cli/commands.h"
#include "sim/cli/common.h"
#include "sim/leaf_race/race_report.h"
#include "sim/release_selection.h"
#include "sim/scenario/scenario.h"

namespace zero3::sim::cli {
namespace {

constexpr uint64_t kMaxStates = 4'000'000;

struct RaceInput {
  std::string name;
  std::string words;  // of the command line
  Experiment experiment;
};

RaceInput input_of(const RacesArguments& arguments) {
  const TryArguments& program = arguments.short_form;
  if (arguments.path.empty() == program.program.empty())
    throw BadInput("one model is needed", "name a scenario, or give --program and --model");
  if (!program.program.empty())
    return {program.program, "--program " + shell_word(program.program) + short_form_words(program),
            experiment_of(program)};
  const Scenario scenario = load_scenario(arguments.path);
  const int ranks = arguments.ranks_given ? program.options.ranks : scenario.ranks;
  return {scenario.name, shell_word(arguments.path), scenario.experiment(ranks, scenario.seed)};
}

// The thread of each step, from 0.
std::vector<int> order_of(const RacesArguments& arguments) {
  std::vector<int> order;
  const std::string& text = arguments.order;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(',', start), text.size());
    int thread = 0;
    const auto [stop, error] = std::from_chars(text.data() + start, text.data() + end, thread);
    if (error != std::errc{} || stop != text.data() + end || thread < 1 || thread > arguments.race.threads) {
      throw BadInput(
          "--order", text, Place{1, static_cast<int>(start) + 1}, "this is no thread",
          fmt::format("the number of a thread for each step, 1 to {}, as in 1,1,2", arguments.race.threads));
    }
    order.push_back(thread - 1);
    start = end + 1;
  }
  return order;
}

Interleavings told(const RacingLeaf& leaf, const RacesArguments& arguments) {
  const std::vector<int> order = order_of(arguments);
  const RaceStory story = tell(FetchThreads(leaf.setup), order);
  if (!story.end) {
    const std::string advice = story.taken < order.size()
                                   ? fmt::format("after {} steps thread {} is done, or waits for another one",
                                                 story.taken, order[story.taken] + 1)
                                   : "the order ends before the threads do";
    throw BadInput("--order: not an order of these threads", advice);
  }
  if (story.taken < order.size())
    throw BadInput(fmt::format("--order: everything ends with step {} of {}", story.taken, order.size()),
                   "leave out the steps after it");
  RaceOutcome outcome{.end = *story.end, .interleavings = Count(1), .shortest = order};
  outcome.gathers_seen = static_cast<uint8_t>(1U << static_cast<unsigned>(story.state.gathers()));
  return {.total = Count(1), .states = 0, .outcomes = {std::move(outcome)}};
}

Interleavings interleavings_of(const RacingLeaf& leaf, const RacesArguments& arguments) {
  if (!arguments.order.empty()) return told(leaf, arguments);
  std::optional<Interleavings> all = explore(FetchThreads(leaf.setup), kMaxStates);
  if (all) return *std::move(all);
  throw BadInput(fmt::format("{} threads over {} params have more than {} states", leaf.setup.threads,
                             leaf.setup.params, kMaxStates),
                 "give a smaller --params or --threads");
}

std::string reproduce(const RacesArguments& arguments, const RaceInput& input, const RacingLeaf& leaf,
                      const Release& release) {
  const RaceOptions usual;
  std::string line =
      fmt::format("zero3sim races {} --deepspeed {} --ranks {}", input.words, release.text(), leaf.ranks);
  if (!arguments.race.module.empty()) line += " --module " + shell_word(arguments.race.module);
  if (arguments.race.threads_given) line += fmt::format(" --threads {}", arguments.race.threads);
  if (arguments.race.params != usual.params) line += fmt::format(" --params {}", arguments.race.params);
  if (arguments.race.prefetched) line += " --prefetched";
  if (!arguments.order.empty()) line += " --order " + arguments.order;
  return line;
}

}  // namespace

Verdict races(const RacesArguments& arguments) {
  const RaceInput input = input_of(arguments);
  const std::string source = arguments.path.empty() ? "--program" : arguments.path;
  const std::vector<Release> releases = chosen_releases(arguments.deepspeed);
  RaceReports found;
  for (const Release& release : releases) {
    if (releases.size() > 1 && !behaviour_of(release).leaf_modules) {
      found.without_leaf_modules.push_back(release);
      continue;
    }
    RacingLeaf leaf = racing_leaf(input.experiment, release, arguments.race, source);
    if (!found.reports.empty() && same_race(found.reports.back().leaf, leaf)) {
      found.reports.back().releases.push_back(release);
      continue;
    }
    Interleavings interleavings = interleavings_of(leaf, arguments);
    std::string line = reproduce(arguments, input, leaf, release);
    found.reports.push_back({input.name,
                             {release},
                             std::move(leaf),
                             std::move(interleavings),
                             !arguments.order.empty(),
                             std::move(line)});
  }
  if (found.reports.empty())  // says which release brought them
    racing_leaf(input.experiment, releases.back(), arguments.race, source);
  print(arguments.format == Format::kJson ? json_report(found) : text_report(found));
  const bool fails = std::ranges::any_of(found.reports, &RaceReport::fails);
  return fails ? Verdict::kNotAsExpected : Verdict::kAsExpected;
}

}  // namespace zero3::sim::cli
