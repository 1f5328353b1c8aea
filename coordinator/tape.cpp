#include "coordinator/tape.h"

#include <queue>

namespace zero3 {

int Tape::add(const Node& node) {
  nodes_.push_back(node);
  ends_.push_back({inputs_.size(), weights_.size()});
  return static_cast<int>(nodes_.size()) - 1;
}

void Tape::add_input(int input) {
  inputs_.push_back(input);
  ++ends_.back().inputs;
}

void Tape::add_weight(Param* weight) {
  weights_.push_back(weight);
  ++ends_.back().weights;
}

std::span<const int> Tape::inputs(int index) const {
  const auto place = static_cast<size_t>(index);
  const size_t begin = place == 0 ? 0 : ends_[place - 1].inputs;
  return std::span(inputs_).subspan(begin, ends_[place].inputs - begin);
}

std::span<Param* const> Tape::weights(int index) const {
  const auto place = static_cast<size_t>(index);
  const size_t begin = place == 0 ? 0 : ends_[place - 1].weights;
  return std::span(weights_).subspan(begin, ends_[place].weights - begin);
}

void Tape::clear() {
  nodes_.clear();
  ends_.clear();
  inputs_.clear();
  weights_.clear();
}

Raised Tape::backward(int root, const Run& run, const Accumulate& accumulate) {
  struct Target {   // of gradients: a node or a param within this pass
    int users = 0;  // still to run
    bool receives = false;
  };
  constexpr int kNotReached = -1;
  std::vector<Target> targets(nodes_.size(), Target{.users = kNotReached});
  const auto target = [&targets](int node) -> Target& { return targets[static_cast<size_t>(node)]; };
  std::vector<int> open = {root};
  target(root) = {.users = 0, .receives = true};
  std::vector<Target> params;  // by ds_id
  while (!open.empty()) {
    const int index = open.back();
    open.pop_back();
    for (const Param* param : weights(index)) {
      const auto id = static_cast<size_t>(param->ds_id);
      if (id >= params.size()) params.resize(id + 1);
      ++params[id].users;
    }
    for (const int input : inputs(index)) {
      if (target(input).users == kNotReached) {
        target(input).users = 0;
        open.push_back(input);
      }
      ++target(input).users;
    }
  }
  const auto hand_on = [](bool gradient, Target& to) {  // true: `to` has no user left
    to.receives = to.receives || gradient;
    return --to.users == 0;
  };
  std::priority_queue<int> ready;
  ready.push(root);
  while (!ready.empty()) {
    const int index = ready.top();
    ready.pop();
    bool gradient = target(index).receives;
    if (Raised raised = run(index, gradient)) return raised;
    const std::span<Param* const> used = weights(index);  // the last one's gradient comes first
    for (size_t i = used.size(); i-- > 0;) {
      Target& param = params[static_cast<size_t>(used[i]->ds_id)];
      if (!hand_on(gradient, param)) continue;
      if (Raised raised = accumulate(*used[i], param.receives)) return raised;
    }
    for (const int input : inputs(index)) {  // asked for after running, which may have added nodes
      if (hand_on(gradient, target(input))) ready.push(input);
    }
  }
  return nullptr;
}

}  // namespace zero3
