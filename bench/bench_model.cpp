#include "bench/bench_model.h"

#include <cstdio>
#include <cstdlib>

namespace zero3::bench {
namespace {

constexpr int64_t kSide = 4096;

void must_succeed(const Raised& raised) {
  if (!raised) return;
  std::fprintf(stderr, "a benchmark's program failed: %s\n", raised->message().c_str());
  std::abort();
}

}  // namespace

ModelSpec layered_model(int layers, int params) {
  ModelSpec model;
  model.modules.emplace_back().type = "Root";
  for (int i = 1; i <= layers; ++i) {
    ModuleSpec layer;
    layer.name = "layers." + std::to_string(i);
    layer.type = "Linear";
    for (int p = 0; p < params; ++p)
      layer.params.push_back({.name = "weight" + std::to_string(p), .shape = {kSide, kSide}});
    model.modules.push_back(std::move(layer));
    model.modules.front().children.push_back(i);
  }
  return model;
}

Raised InstantCommunicator::launch_all_gather(std::span<Param* const>, Request& request) {
  request = next_++;
  return nullptr;
}

Raised InstantCommunicator::broadcast_ints(std::span<const int64_t> own, std::vector<int64_t>& of_rank0) {
  of_rank0.assign(own.begin(), own.end());
  return nullptr;
}

Workbench::Workbench(const Release& release, int params_per_layer, Observer* observer)
    : model_(layered_model(kLayers, params_per_layer)),
      runtime_{behaviour_of(release), Settings{}, communicator_, observer},
      partitioner_(runtime_),
      offload_(process_, model_.module(0), runtime_, partitioner_) {}

void Workbench::fetch(Module& module, bool forward) {
  must_succeed(offload_.coordinator(true).before_sub_module(module, forward));
}

void Workbench::release(Module& module, bool forward) {
  must_succeed(offload_.coordinator(true).after_sub_module(module, forward));
}

void Workbench::pass(int skipped) {
  const ForwardStartReset reset = runtime_.behaviour.forward_start_reset;
  Module& root = model_.module(0);
  if (reset == ForwardStartReset::kBeforeRootPreHook) must_succeed(offload_.start_of_forward());
  fetch(root, true);
  if (reset == ForwardStartReset::kAfterRootPreHook) must_succeed(offload_.start_of_forward());
  for (int i = 1; i <= kLayers; ++i) {
    if (i == skipped) continue;
    fetch(model_.module(i), true);
    release(model_.module(i), true);
  }
  release(root, true);
  fetch(root, false);
  for (int i = kLayers; i >= 1; --i) {
    if (i == skipped) continue;
    fetch(model_.module(i), false);
    release(model_.module(i), false);
  }
  release(root, false);
  if (runtime_.behaviour.backward_end_reset) must_succeed(offload_.reset_after_backward());
}

void Workbench::warm_up() {
  pass();
  offload_.coordinator(true).finish_tracing();
  pass();
  pass();
}

void Workbench::invalidate() { must_succeed(offload_.coordinator(true).hooks_registered_again()); }

TrainingRun::TrainingRun(const Release& release)
    : model_(layered_model(kLayers, 1)),
      engine_(process_, model_.module(0), behaviour_of(release), Settings{}, communicator_, nullptr, {}) {
  for (int i = 1; i <= kLayers; ++i) plan_.push_back({.module = &model_.module(i)});
}

void TrainingRun::iteration() {
  must_succeed(engine_.forward(plan_, true));
  must_succeed(engine_.backward());
  must_succeed(engine_.step());
}

}  // namespace zero3::bench
