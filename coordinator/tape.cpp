#include "coordinator/tape.h"

#include <map>
#include <queue>

namespace zero3 {

int Tape::add(Node node) {
  nodes_.push_back(std::move(node));
  return static_cast<int>(nodes_.size()) - 1;
}

Raised Tape::backward(int root, const Run& run) {
  std::map<int, int> users;  // within this pass
  std::vector<int> open = {root};
  users[root] = 0;
  while (!open.empty()) {
    const int index = open.back();
    open.pop_back();
    for (const int input : node(index).inputs) {
      const auto [place, first] = users.try_emplace(input, 0);
      ++place->second;
      if (first) open.push_back(input);
    }
  }
  std::priority_queue<int> ready;
  ready.push(root);
  while (!ready.empty()) {
    const int index = ready.top();
    ready.pop();
    if (Raised raised = run(index)) return raised;
    const std::vector<int> inputs = node(index).inputs;  // running may have added nodes
    for (const int input : inputs) {
      if (--users[input] == 0) ready.push(input);
    }
  }
  return nullptr;
}

}  // namespace zero3
