#include "sim/fixes/variations.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sim/fixes/branches.h"
#include "sim/fixes/saves.h"

namespace zero3::sim {
namespace {

class Collector {
 public:
  explicit Collector(const Experiment& given) { found_.programs.push_back({"", given}); }

  void add(std::string what, Experiment experiment) {
    const bool known = std::ranges::any_of(found_.programs, [&](const Variation& one) {
      return one.experiment.rank_programs == experiment.rank_programs;
    });
    if (known) return;
    ++found_.possible;
    if (found_.programs.size() <= kMaxVariations)
      found_.programs.push_back({std::move(what), std::move(experiment)});
  }

  Variations take() { return std::move(found_); }

 private:
  Variations found_;
};

void vary_branch(const Experiment& experiment, const ForwardBranch& branch, Collector& collector) {
  for (const LeftOut& one : branch.left_out) {
    const size_t count = one.calls.size();
    const size_t length = list_at(branch.whole, one.path).size();
    for (size_t first = 0; first + count <= length; ++first) {
      LeftOut varied{one.path, {}};
      for (size_t i = 0; i < count; ++i) varied.calls.push_back(first + i);
      Calls plan = branch.whole;
      // The lists inside first: what is erased there moves nothing outside.
      for (auto other = branch.left_out.rbegin(); other != branch.left_out.rend(); ++other) {
        const LeftOut& erased = *other == one ? varied : *other;
        Calls& list = list_at(plan, erased.path);
        for (auto index = erased.calls.rbegin(); index != erased.calls.rend(); ++index)
          list.erase(list.begin() + static_cast<std::ptrdiff_t>(*index));
      }
      collector.add("without " + module_names(experiment, calls_of(varied, branch.whole)),
                    with_plan(experiment, branch, plan));
    }
  }
}

std::string place_text(const Program& program, size_t place) {
  return place == 0 ? "at the start" : fmt::format("after step {} ({})", place, program[place - 1].text);
}

void vary_saves(const Experiment& experiment, Collector& collector) {
  const Program& first = experiment.rank_programs.front();
  const std::vector<StatementRange> saves = saves_of(first);
  for (const Program& program : experiment.rank_programs) {
    if (program.size() != first.size() || saves_of(program) != saves) return;
  }
  const std::vector<bool> outside = places_outside(first);
  for (const StatementRange& save : saves) {
    for (size_t place = 0; place <= first.size(); ++place) {
      if (!outside[place] || (place > save.begin && place < save.end)) continue;
      Experiment changed = experiment;
      for (Program& program : changed.rank_programs) program = moved(program, save, place);
      collector.add(fmt::format("{} {}", first[save.begin].text, place_text(first, place)),
                    std::move(changed));
    }
  }
}

}  // namespace

Variations variations_of(const Experiment& experiment, bool with_saves) {
  Collector collector(experiment);
  for (const ForwardBranch& branch : branches_of(experiment)) vary_branch(experiment, branch, collector);
  if (with_saves) vary_saves(experiment, collector);
  return collector.take();
}

}  // namespace zero3::sim
