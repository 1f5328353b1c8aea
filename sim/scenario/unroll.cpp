// Settles repeats, branches and draws of a program for one rank and one seed.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sim/scenario/program.h"
#include "sim/split_mix.h"

namespace zero3::sim {
namespace {

constexpr size_t kMaxStatements = 1'000'000;
constexpr size_t kMaxCalls = 10'000'000;
constexpr size_t kMaxVisits = 10'000'000;  // steps looked at, those that come to nothing among them

// Where in the program something stands, repeats counted out, and the seed: two numbers folded into one.
uint64_t below(uint64_t place, uint64_t index) { return split_mix(place ^ split_mix(index)); }

class Unroller {
 public:
  Unroller(const ScenarioModel& model, int rank, const YamlFile& file)
      : model_(model), rank_(rank), file_(file) {}

  Program take() { return std::move(program_); }

  void add_steps(const std::vector<Step>& steps, uint64_t place, int64_t iteration) {
    for (size_t i = 0; i < steps.size(); ++i) add_step(steps[i], below(place, i), iteration);
  }

 private:
  void add_step(const Step& step, uint64_t place, int64_t iteration) {
    if (++visits_ > kMaxVisits) file_.fail(step.place, "the program repeats too much", "fewer repeats");
    switch (step.kind) {
      case Step::Kind::kOps: add_statement(step, step.ops, step.text, place); break;
      case Step::Kind::kBlock:
        add_statement(step, step.ops, step.text, place);
        add_steps(step.branches[0].steps, place, iteration);
        add_statement(step, step.closing_ops, "end of " + step.text, place);
        break;
      case Step::Kind::kRepeat:
        for (int64_t i = 0; i < step.times && !step.branches[0].steps.empty(); ++i) {
          add_steps(step.branches[0].steps, below(place, static_cast<uint64_t>(i)), i + 1);
        }
        break;
      case Step::Kind::kWhen:
        add_steps(step.branches[holds(step, iteration) ? 0 : 1].steps, place, iteration);
        break;
      case Step::Kind::kChoose: add_steps(chosen(step, place).steps, place, iteration); break;
    }
  }

  bool holds(const Step& step, int64_t iteration) const {
    const auto among = [](const std::vector<int64_t>& wanted, int64_t value) {
      return wanted.empty() || std::ranges::find(wanted, value) != wanted.end();
    };
    return among(step.ranks, rank_) && among(step.iterations, iteration);
  }

  uint64_t number(uint64_t place, bool per_rank) const {
    return per_rank ? below(place, static_cast<uint64_t>(rank_) + 1) : split_mix(place);
  }

  const StepBranch& chosen(const Step& step, uint64_t place) const {
    uint64_t total = 0;
    for (const StepBranch& branch : step.branches) total += static_cast<uint64_t>(branch.weight);
    uint64_t at = number(place, step.per_rank) % total;
    for (const StepBranch& branch : step.branches) {
      const auto weight = static_cast<uint64_t>(branch.weight);
      if (at < weight) return branch;
      at -= weight;
    }
    return step.branches.back();
  }

  void add_statement(const Step& step, const std::vector<StepOp>& ops, const std::string& text,
                     uint64_t place) {
    if (program_.size() >= kMaxStatements) {
      file_.fail(step.place,
                 fmt::format("the program has more than {} steps, repeats counted out", kMaxStatements));
    }
    Statement statement{text, step.place, {}};
    for (size_t i = 0; i < ops.size(); ++i) {
      const StepOp& op = ops[i];
      statement.ops.push_back({.kind = op.kind,
                               .engine = op.engine,
                               .grad_enabled = op.grad_enabled,
                               .plan = settle(op.plan, below(place, i), step),
                               .params = op.params,
                               .modifier_rank = op.modifier_rank,
                               .overflow = op.overflow,
                               .module = op.module});
    }
    program_.push_back(std::move(statement));
  }

  std::vector<PlannedCall> settle(const Plan& plan, uint64_t place, const Step& step) {
    std::vector<PlannedCall> calls;
    for (size_t i = 0; i < plan.size(); ++i) {
      const PlanItem& item = plan[i];
      const uint64_t own_place = below(place, i);
      if (item.module >= 0) {
        calls.push_back(call(item, item.module, own_place, step));
        continue;
      }
      for (const int module : drawn(item, own_place)) {
        calls.push_back(call(item, module, below(own_place, static_cast<uint64_t>(module)), step));
      }
    }
    return calls;
  }

  PlannedCall call(const PlanItem& item, int module, uint64_t place, const Step& step) {
    if (++calls_ > kMaxCalls)
      file_.fail(step.place, fmt::format("the program calls more than {} modules", kMaxCalls));
    PlannedCall made{.module = module,
                     .checkpointing = item.checkpointing,
                     .detach_input = item.detach_input,
                     .discard_output = item.discard_output};
    const ScenarioModel::Extra& extra = model_.extra_of(module);
    if (item.own_children) {
      made.children = settle(item.children, place, step);
    } else if (extra.has_forward) {
      made.children = settle(extra.forward, place, step);
    } else {
      Plan children;
      for (const int child : model_.callable_children(module)) children.push_back(PlanItem{.module = child});
      made.children = settle(children, place, step);
    }
    return made;
  }

  // The first so many of a shuffle, in the order that they stand in.
  std::vector<int> drawn(const PlanItem& item, uint64_t place) const {
    std::vector<int> order = item.candidates;
    for (size_t i = 0; i < static_cast<size_t>(item.drawn); ++i) {
      const size_t left = order.size() - i;
      std::swap(order[i], order[i + number(below(place, i), item.per_rank) % left]);
    }
    order.resize(static_cast<size_t>(item.drawn));
    std::vector<int> kept;
    for (const int candidate : item.candidates) {
      if (std::ranges::find(order, candidate) != order.end()) kept.push_back(candidate);
    }
    return kept;
  }

  const ScenarioModel& model_;
  int rank_;
  const YamlFile& file_;
  Program program_;
  size_t calls_ = 0;
  size_t visits_ = 0;
};

}  // namespace

Program unroll(const std::vector<Step>& steps, const ScenarioModel& model, uint64_t seed, int rank,
               const YamlFile& file) {
  Unroller unroller(model, rank, file);
  unroller.add_steps(steps, split_mix(seed), 0);
  return unroller.take();
}

}  // namespace zero3::sim
