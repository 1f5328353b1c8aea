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
  constexpr int kNotReached = -1;
  std::vector<int> users(nodes_.size(), kNotReached);  // within this pass
  const auto users_of = [&users](int node) -> int& { return users[static_cast<size_t>(node)]; };
  std::vector<int> open = {root};
  users_of(root) = 0;
  std::vector<int> uses;  // of params within this pass, by ds_id
  std::vector<bool> receives(nodes_.size(), false);
  std::vector<bool> param_receives;  // by ds_id
  while (!open.empty()) {
    const int index = open.back();
    open.pop_back();
    for (const Param* param : weights(index)) {
      const auto id = static_cast<size_t>(param->ds_id);
      if (id >= uses.size()) uses.resize(id + 1);
      ++uses[id];
    }
    for (const int input : inputs(index)) {
      if (users_of(input) == kNotReached) {
        users_of(input) = 0;
        open.push_back(input);
      }
      ++users_of(input);
    }
  }
  param_receives.resize(uses.size(), false);
  receives[static_cast<size_t>(root)] = true;
  std::priority_queue<int> ready;
  ready.push(root);
  while (!ready.empty()) {
    const int index = ready.top();
    ready.pop();
    bool gradient = receives[static_cast<size_t>(index)];
    if (Raised raised = run(index, gradient)) return raised;
    const std::span<Param* const> used = weights(index);  // the last one's gradient comes first
    for (size_t i = used.size(); i-- > 0;) {
      const auto id = static_cast<size_t>(used[i]->ds_id);
      if (gradient) param_receives[id] = true;
      if (--uses[id] > 0) continue;
      if (Raised raised = accumulate(*used[i], param_receives[id])) return raised;
    }
    for (const int input : inputs(index)) {  // asked for after running, which may have added nodes
      if (gradient) receives[static_cast<size_t>(input)] = true;
      if (--users_of(input) == 0) ready.push(input);
    }
  }
  return nullptr;
}

}  // namespace zero3
