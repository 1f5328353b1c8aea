// The ds_config.json settings that the coordinator reads. Sizes are elements of full parameters.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

namespace zero3 {

// More micro-steps a cycle than anyone uses: what reads settings refuses them.
constexpr int kMaxAccumulation = 1 << 20;

struct Settings {
  int64_t prefetch_bucket_numel = 50'000'000;           // stage3_prefetch_bucket_size
  int64_t max_live_numel = 1'000'000'000;               // stage3_max_live_parameters
  int64_t max_reuse_distance_numel = 1'000'000'000;     // stage3_max_reuse_distance
  int64_t param_persistence_threshold_numel = 100'000;  // stage3_param_persistence_threshold
  int64_t model_persistence_threshold_numel = std::numeric_limits<int64_t>::max();
  int gradient_accumulation_steps = 1;
  bool fp16 = false;                      // fp16.enabled; else fp32 or bf16
  bool log_trace_cache_warnings = false;  // v0.16.4
  bool gather_16bit_weights_on_model_save = false;
  bool allgather_sequential = false;             // stage3_allgather_sequential, v0.18.5
  std::optional<double> gradient_clipping = {};  // norm; 0: none; not given: the release's default

  bool operator==(const Settings&) const = default;
};

}  // namespace zero3
