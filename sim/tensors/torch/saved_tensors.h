// What autograd saves in forward, seen by the checkpointed region that it is saved in: torch.utils.checkpoint with
// use_reentrant=False, of torch 2.1 and of torch before.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <torch/torch.h>

namespace zero3::sim {

// The recomputation of a region has come to the last tensor that it had saved.
struct StopRecomputation {};

class CheckpointedRegion : public std::enable_shared_from_this<CheckpointedRegion> {
 public:
  // Runs the region again on the input, with grad.
  using Recompute = std::function<void(const torch::Tensor& input)>;

  // `whole`: the region runs to its end again (torch before 2.1), and its input is no tensor saved by the region around
  // it.
  CheckpointedRegion(const torch::Tensor& input, bool whole, Recompute recompute);

  // Runs `forward` once, so that what autograd saves in it is this region's.
  void run(const std::function<void()>& forward);

 private:
  friend class SavedInRegion;
  friend class SavedAgain;

  const torch::Tensor& saved_tensor(size_t number);
  void recompute();

  torch::Tensor input_;                         // of a whole one
  torch::autograd::SavedVariable saved_input_;  // of another
  bool whole_;
  Recompute recompute_;
  size_t saved_ = 0;
  bool recomputed_ = false;
  std::vector<torch::Tensor> tensors_;
};

// Must have been called before the first region runs: autograd asks its engine where saved tensors go.
void hook_saved_tensors();

}  // namespace zero3::sim
