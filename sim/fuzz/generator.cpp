#include "sim/fuzz/generator.h"

#include <array>
#include <utility>

#include "sim/fuzz/random_model.h"
#include "sim/fuzz/random_program.h"
#include "sim/split_mix.h"

namespace zero3::sim {
namespace {

// Sizes around those of the models: some bigger than all of a model, some between two of its parameters.
Settings random_settings(Draws draws) {
  static constexpr auto kAccumulation = std::to_array({1, 1, 1, 2, 2, 3});
  static constexpr auto kReuse = std::to_array<int64_t>({0, 0, 0, 64, 128, 200, 1'000'000});
  static constexpr auto kPrefetch =
      std::to_array<int64_t>({0, 1, 1, 50, 64, 100, 100, 128, 130, 200, 300, 1000, 1'000'000});
  static constexpr auto kLive = std::to_array<int64_t>({64, 128, 200, 400, 0});
  static constexpr auto kPersistence = std::to_array<int64_t>({8, 16, 40, 63, 64, 65, 100, 1000});
  static constexpr auto kModelPersistence = std::to_array<int64_t>({0, 40, 64, 100, 200});
  Settings settings;
  settings.gradient_accumulation_steps = draws.pick(kAccumulation);
  settings.max_reuse_distance_numel = draws.pick(kReuse);
  settings.prefetch_bucket_numel = draws.pick(kPrefetch);
  settings.max_live_numel = draws.chance(500) ? 1'000'000 : draws.pick(kLive);
  settings.param_persistence_threshold_numel = draws.chance(385) ? 0 : draws.pick(kPersistence);
  if (draws.chance(100)) settings.model_persistence_threshold_numel = draws.pick(kModelPersistence);
  settings.gather_16bit_weights_on_model_save = !draws.chance(60);
  settings.log_trace_cache_warnings = draws.chance(200);
  settings.allgather_sequential = draws.chance(80);
  return settings;
}

}  // namespace

Experiment generate(uint64_t seed, uint64_t index, const FuzzTarget& target, int ranks) {
  // Each part has draws of its own, so that a feature that one release lacks leaves the other parts as they are.
  const uint64_t number = split_mix(split_mix(seed) ^ index);
  const Draws for_model(number ^ 1U);
  const Draws for_settings(number ^ 2U);
  const Draws for_program(number ^ 3U);
  Draws for_rest(number ^ 4U);
  const RandomModel model = random_model(for_model, target);
  Experiment experiment;
  experiment.model = model.spec;
  experiment.settings = random_settings(for_settings);
  experiment.input_requires_grad = !for_rest.chance(250);
  experiment.engines = {{.root = 0, .with_optimizer = model.with_optimizer}};
  const Program program = random_program(model, target, ranks, for_program);
  experiment.rank_programs.assign(static_cast<size_t>(ranks), program);
  return experiment;
}

}  // namespace zero3::sim
