#include "sim/fuzz/random_plan.h"

#include <utility>

namespace zero3::sim {
namespace {

constexpr int kMaxTries = 20;
constexpr int kWithoutHabit = 80;  // per mille of calls that are made plainly all the same

class PlanMaker {
 public:
  PlanMaker(const RandomModel& model, int mutation, Draws& draws)
      : model_(model), mutation_(mutation), draws_(draws) {}

  std::vector<PlannedCall> below(int parent) {
    std::vector<int> children = model_.spec.modules[static_cast<size_t>(parent)].children;
    if (draws_.chance(mutation_) && !children.empty())
      children.erase(children.begin() + draws_.below(static_cast<int>(children.size())));
    if (draws_.chance(mutation_)) draws_.shuffle(children);
    if (draws_.chance(mutation_)) repeat_one(children);
    return calls(children);
  }

  // Of a flat model: some of the Linear children.
  std::vector<PlannedCall> flat() {
    std::vector<int> children;
    for (int i = 1; i <= model_.called; ++i) children.push_back(i);
    if (mutation_ > 0) {
      if (draws_.chance(400) && children.size() > 1)
        children.erase(children.begin() + draws_.below(static_cast<int>(children.size())));
      if (draws_.chance(250)) draws_.shuffle(children);
      if (draws_.chance(300)) repeat_one(children);
    }
    return calls(children);
  }

 private:
  void repeat_one(std::vector<int>& children) {
    if (children.empty()) return;
    const int count = static_cast<int>(children.size());
    const int at = draws_.below(count);
    const int repeated = children[static_cast<size_t>(at)];
    const int to = draws_.chance(500) ? at : draws_.below(count + 1);
    children.insert(children.begin() + to, repeated);
  }

  std::vector<PlannedCall> calls(const std::vector<int>& children) {
    std::vector<PlannedCall> made;
    for (const int child : children) {
      PlannedCall call{.module = child};
      const RandomModel::Habit& habit = model_.habits[static_cast<size_t>(child)];
      if (!draws_.chance(kWithoutHabit)) {
        call.checkpointing = habit.checkpointing;
        call.detach_input = habit.detach_input;
        call.discard_output = habit.discard_output;
      }
      call.children = below(child);
      made.push_back(std::move(call));
    }
    return made;
  }

  const RandomModel& model_;
  int mutation_;
  Draws& draws_;
};

}  // namespace

std::vector<PlannedCall> random_plan(const RandomModel& model, int mutation_per_mille, Draws& draws) {
  PlanMaker maker(model, mutation_per_mille, draws);
  if (model.flat) return maker.flat();
  for (int i = 0; i < kMaxTries; ++i) {
    std::vector<PlannedCall> plan = maker.below(0);
    if (!plan.empty()) return plan;
  }
  return {{.module = model.spec.modules.front().children.front()}};
}

std::string plan_text(const std::vector<PlannedCall>& plan, const ModelSpec& model) {
  std::string text;
  for (const PlannedCall& call : plan) {
    const std::string& name = model.modules[static_cast<size_t>(call.module)].name;
    text += name.substr(name.rfind('.') + 1);
    if (!call.children.empty()) text += "[" + plan_text(call.children, model) + "]";
  }
  return text;
}

}  // namespace zero3::sim
