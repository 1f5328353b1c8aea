// The order in which autograd fires: a small model of torch's backward graph.
//
// Every node has the sequence number of its creation; a backward pass runs the ready node with the highest one, as
// torch's engine does on one device. Gradients have no values here, only the question whether they exist: a node runs
// without one where all its users hand on none, and so do the hooks of a param's gradient.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
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
  kLeafInput,     // a hook on the gradient of a leaf module's input
  kLeafBackward,  // the full backward hook of a leaf module
  kCheckpoint,    // torch.utils.checkpoint with use_reentrant=True
  kRegionInput,   // the detached input of such a region as it runs again
};

struct Node {
  NodeKind kind = NodeKind::kOp;
  int weight_version =
      -1;  // data_version of the weight that a Linear keeps, to make its input's gradient with; -1: none
  Module* module = nullptr;
  ParameterOffload* owner = nullptr;  // whose hook a wrapper calls
  int frame = -1;                     // checkpointed region it belongs to
  bool saves = false;                 // keeps tensors for backward
  bool freed = false;                 // and has given them up
};

class Tape {
 public:
  // `gradient`: whether the node receives one, and afterwards whether it hands one on.
  using Run = std::function<Raised(int node, bool& gradient)>;
  using Accumulate = std::function<Raised(Param& param, bool gradient)>;

  // Adds a node after all others.
  int add(const Node& node);
  // A node that the last added node's gradient goes to, and a param that receives one.
  void add_input(int input);
  void add_weight(Param* weight);
  Node& node(int index) { return nodes_[static_cast<size_t>(index)]; }
  // Both stay valid until something is added.
  std::span<const int> inputs(int index) const;
  std::span<Param* const> weights(int index) const;
  size_t size() const { return nodes_.size(); }
  void clear();
  // Runs backward from `root`, highest sequence number first, each node once all its users in this pass have run.
  // A param's gradient is accumulated once a pass, as soon as every node of the pass that uses it has run.
  Raised backward(int root, const Run& run, const Accumulate& accumulate);

 private:
  // A node's inputs and weights end where those of the next node begin. Kept apart so that adding a node rarely
  // allocates.
  struct Ends {
    size_t inputs = 0;
    size_t weights = 0;
  };

  std::vector<Node> nodes_;  // the index is the sequence number
  std::vector<Ends> ends_;   // of each node
  std::vector<int> inputs_;
  std::vector<Param*> weights_;
};

}  // namespace zero3
