// What the benchmarks run on: a model of many equal layers, ranks that answer at once, and a coordinator driven by the
// hooks' order without the engine around it.
#pragma once

#include <memory>
#include <vector>

#include "coordinator/engine.h"

namespace zero3::bench {

constexpr int kLayers = 200;

// One release of each kind of coordinator: v1; v2 without and with trace modes; the newest.
constexpr Release v0_5_10{0, 5, 10};
constexpr Release v0_6_0{0, 6, 0};
constexpr Release v0_15_2{0, 15, 2};
constexpr Release v0_19_8{0, 19, 8};

// `layers` children of a root, each with `params` square weights of 4096 x 4096.
ModelSpec layered_model(int layers, int params);

// Every collective is done as soon as it is asked for.
class InstantCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int world_size() const override { return 8; }
  Raised launch_all_gather(std::span<Param* const>, Request& request) override;
  Raised wait(Request) override { return nullptr; }
  Raised broadcast(const Param&, int) override { return nullptr; }
  Raised broadcast_ints(std::span<const int64_t> own, std::vector<int64_t>& of_rank0) override;
  Raised reduce_scatter(std::span<Param* const>) override { return nullptr; }

 private:
  Request next_ = 0;
};

class CountingObserver final : public Observer {
 public:
  void on_event(const Event&) override { ++events_; }
  int64_t events() const { return events_; }

 private:
  int64_t events_ = 0;
};

// DeepSpeed's own defaults for all sizes: three of the layers fill a prefetch bucket, sixty may be live.
class Workbench {
 public:
  Workbench(const Release& release, int params_per_layer, Observer* observer);

  // One forward and one backward in which every module runs once, but for the layer at index `skipped`. Stops the
  // program if something is raised.
  void pass(int skipped = -1);
  // Passes until the trace is recorded and prefetching.
  void warm_up();
  void invalidate();
  // Fetches and releases of a pass.
  static constexpr int kOperations = 4 * (kLayers + 1);

 private:
  void fetch(Module& module, bool forward);
  void release(Module& module, bool forward);

  InstantCommunicator communicator_;
  Process process_;
  Model model_;
  Runtime runtime_;
  Partitioner partitioner_;
  ParameterOffload offload_;
};

// A whole engine on the same model: what a training script calls.
class TrainingRun {
 public:
  explicit TrainingRun(const Release& release);
  void iteration();

 private:
  InstantCommunicator communicator_;
  Process process_;
  Model model_;
  Engine engine_;
  std::vector<Call> plan_;
};

}  // namespace zero3::bench
