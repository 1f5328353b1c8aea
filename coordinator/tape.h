// The order in which autograd fires: a small model of torch's backward graph.
//
// Every node has the sequence number of its creation; a backward pass runs the ready node with the highest one, as
// torch's engine does on one device. Gradients have no values here, only the question whether they exist.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "coordinator/failure.h"
#include "coordinator/model.h"

namespace zero3 {

// A tensor: what made it, and whether gradients flow to it.
struct Value {
  int node = -1;  // -1: a leaf
  bool requires_grad = false;
};

enum class NodeKind {
  kOp,            // a computation with a module's weights, or an activation
  kPreBackward,   // DeepSpeed's wrapper around a module's output
  kPostBackward,  // and around its input
  kCheckpoint,    // torch.utils.checkpoint with use_reentrant=True
};

struct Node {
  NodeKind kind = NodeKind::kOp;
  Module* module = nullptr;
  ParameterOffload* owner = nullptr;  // whose hook a wrapper calls
  std::vector<int> inputs = {};       // nodes its gradients go to
  std::vector<Param*> weights = {};   // params that receive a gradient
  int frame = -1;                     // checkpointed region it belongs to
  bool saves = false;                 // keeps tensors for backward
  bool freed = false;                 // and has given them up
};

class Tape {
 public:
  using Run = std::function<Raised(int node)>;

  // Adds a node after all others.
  int add(Node node);
  Node& node(int index) { return nodes_[static_cast<size_t>(index)]; }
  size_t size() const { return nodes_.size(); }
  void clear() { nodes_.clear(); }
  // Runs backward from `root`, highest sequence number first, each node once all its users in this pass have run.
  Raised backward(int root, const Run& run);

 private:
  std::vector<Node> nodes_;  // the index is the sequence number
};

}  // namespace zero3
