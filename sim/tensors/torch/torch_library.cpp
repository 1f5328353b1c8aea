// What the program looks for in this module.
#include "sim/tensors/rank_tensors.h"
#include "sim/tensors/torch/saved_tensors.h"
#include "sim/tensors/torch/torch_tensors.h"

namespace zero3::sim {
namespace {

class TorchLibrary final : public TensorLibrary {
 public:
  TorchLibrary() {
    torch::set_num_threads(1);  // the same sums in the same order, and ranks that do not crowd one another
    hook_saved_tensors();
  }

  std::unique_ptr<RankTensors> make(const Experiment& experiment, const Behaviour& behaviour, int rank,
                                    const TensorOptions& options) const override {
    return std::make_unique<TorchTensors>(experiment, behaviour, rank, options);
  }
};

}  // namespace
}  // namespace zero3::sim

extern "C" zero3::sim::TensorLibrary* zero3sim_make_tensor_library() { return new zero3::sim::TorchLibrary; }
