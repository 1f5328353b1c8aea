#include "sim/scenario/config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>

#include <fmt/format.h>

namespace zero3::sim {
namespace {

constexpr std::string_view kAccumulation = "gradient_accumulation_steps";
constexpr std::string_view kClipping = "gradient_clipping";

// Keys that no decision of the coordinator reads.
constexpr auto kIgnoredTopKeys = std::to_array<std::string_view>({
    "activation_checkpointing",
    "aio",
    "amp",
    "autotuning",
    "bf16",
    "bfloat16",
    "checkpoint",
    "comet",
    "comms_logger",
    "communication_data_type",
    "compression_training",
    "csv_monitor",
    "curriculum_learning",
    "data_efficiency",
    "data_types",
    "dataloader_drop_last",
    "disable_allgather",
    "dump_state",
    "eigenvalue",
    "elasticity",
    "flops_profiler",
    "gradient_predivide_factor",
    "graph_harvesting",
    "memory_breakdown",
    "monitor_config",
    "nebula",
    "optimizer",
    "prescale_gradients",
    "scheduler",
    "seq_parallel_communication_data_type",
    "sparse_attention",
    "sparse_gradients",
    "steps_per_print",
    "tensorboard",
    "timers",
    "torch_autocast",
    "train_batch_size",
    "train_micro_batch_size_per_gpu",
    "use_data_before_expert_parallelism",
    "wall_clock_breakdown",
    "wandb",
    "zero_allow_untested_optimizer",
    "zero_force_ds_cpu_optimizer",
});
constexpr auto kIgnoredZeroKeys = std::to_array<std::string_view>({
    "allgather_bucket_size",
    "allgather_partitions",
    "contiguous_gradients",
    "cpu_offload",
    "cpu_offload_use_pin_memory",
    "elastic_checkpoint",
    "grad_hooks",
    "ignore_unused_parameters",
    "legacy_stage1",
    "load_from_fp32_weights",
    "memory_efficient_linear",
    "offload_optimizer",
    "overlap_comm",
    "override_module_apply",
    "pipeline_loading_checkpoint",
    "reduce_bucket_size",
    "reduce_scatter",
    "round_robin_gradients",
    "sub_group_size",
    "use_multi_rank_bucket_allreduce",
});

// Keys that change what this model computes, and are refused unless they are off.
struct Refused {
  std::string_view key;
  std::string_view off;
  std::string_view why;
};
constexpr auto kRefused = std::to_array<Refused>({
    {"stage3_module_granularity_threshold", "0",
     "which modules it fetches whole is not computed here: name them under the model's leaf_modules"},
    {"zero_hpz_partition_size", "1", "secondary partitions (hpZ) are not modelled"},
    {"zero_quantized_weights", "false", "quantised weights are not modelled"},
    {"zero_quantized_nontrainable_weights", "false", "quantised weights are not modelled"},
    {"mics_shard_size", "-1", "MiCS is not modelled"},
    {"mics_hierarchical_params_gather", "false", "MiCS is not modelled"},
});

// Keys that real DeepSpeed acts on without changing which params are fetched and released when.
struct Noted {
  std::string_view key;
  std::string_view off;
  std::string_view note;
};
constexpr auto kNoted = std::to_array<Noted>({
    {"stage3_use_all_reduce_for_fetch_params", "false", "fetches stay all-gathers here"},
    {"enable_sanity_checks", "false", "its checks of in-place edits are not modelled"},
    {"zero_quantized_gradients", "false", "how gradients travel is not modelled"},
    {"zeropp_loco_param", "", "how gradients travel is not modelled"},
    {"leaf_module", "", "not read: name the classes under the model's leaf_modules"},
});

struct Size {
  std::string_view key;
  std::string_view short_key;  // the field's own name, which releases with pydantic take too
  int64_t Settings::*field;
  int64_t limit;
};
constexpr int64_t kMaxSize = int64_t{1} << 62;
constexpr auto kSizeKeys = std::to_array<Size>({
    {"stage3_prefetch_bucket_size", "prefetch_bucket_size", &Settings::prefetch_bucket_numel, kMaxSize},
    {"stage3_max_live_parameters", "max_live_parameters", &Settings::max_live_numel, kMaxSize},
    {"stage3_max_reuse_distance", "max_reuse_distance", &Settings::max_reuse_distance_numel, kMaxSize},
    {"stage3_param_persistence_threshold", "param_persistence_threshold",
     &Settings::param_persistence_threshold_numel, kMaxSize},
    // DeepSpeed's default is sys.maxsize, which printed configs hold.
    {"stage3_model_persistence_threshold", "model_persistence_threshold",
     &Settings::model_persistence_threshold_numel, std::numeric_limits<int64_t>::max()},
});

bool contains(std::span<const std::string_view> words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

bool is_off(const YamlNode& value, std::string_view off) {
  return value.is_null() || (value.is_scalar() && value.scalar == off);
}

class ConfigReader {
 public:
  ConfigReader(const YamlFile& file, int64_t hidden_size) : file_(file), hidden_size_(hidden_size) {}

  ScenarioConfig read(const YamlNode& config) {
    file_.map(config, "deepspeed_config", "the keys of ds_config.json");
    std::vector<std::string_view> known(kIgnoredTopKeys.begin(), kIgnoredTopKeys.end());
    known.insert(known.end(), {kAccumulation, kClipping, "zero_optimization", "fp16"});
    for (const YamlKey& key : config.keys) {
      const bool misplaced = !contains(known, key.text) && contains(zero_keys(), key.text);
      if (misplaced) {
        file_.fail(key.place, fmt::format("'{}' belongs under zero_optimization", key.text),
                   fmt::format("zero_optimization: {{stage: 3, {}: ...}}", key.text));
      }
    }
    file_.check_keys(config, known, "deepspeed_config");
    if (const YamlNode* steps = config.find(kAccumulation)) {
      refuse_auto(*steps, kAccumulation);
      const int64_t count = file_.count(*steps, std::string(kAccumulation), kMaxAccumulation);
      if (count < 1) file_.fail(steps->place, std::string(kAccumulation) + " is 0", "1: no accumulation");
      result_.settings.gradient_accumulation_steps = static_cast<int>(count);
    }
    if (const YamlNode* norm = config.find(kClipping); norm != nullptr && norm->scalar != "auto")
      result_.settings.gradient_clipping = norm_of(*norm);
    if (const YamlNode* fp16 = config.find("fp16"); fp16 != nullptr && fp16->is_map()) {
      const YamlNode* enabled = fp16->find("enabled");
      const bool unknown = enabled != nullptr && enabled->is_scalar() && enabled->scalar == "auto";
      if (unknown) result_.notes.emplace_back("fp16: enabled is \"auto\", taken as false");
      result_.settings.fp16 = enabled != nullptr && !unknown && file_.boolean(*enabled, "enabled");
    }
    if (const YamlNode* zero = config.find("zero_optimization")) read_zero(*zero);
    return std::move(result_);
  }

 private:
  double norm_of(const YamlNode& node) const {
    const std::string& text = file_.text(node, std::string(kClipping));
    double norm = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), norm);
    if (error != std::errc() || end != text.data() + text.size() || !(norm >= 0) || std::isinf(norm))
      file_.fail(node.place, std::string(kClipping) + " must be a number, 0 or more", "1.0; 0: no clipping");
    return norm;
  }

  static std::vector<std::string_view> zero_keys() {
    std::vector<std::string_view> known(kIgnoredZeroKeys.begin(), kIgnoredZeroKeys.end());
    for (const Size& size : kSizeKeys) known.insert(known.end(), {size.key, size.short_key});
    for (const Refused& refused : kRefused) known.push_back(refused.key);
    for (const Noted& noted : kNoted) known.push_back(noted.key);
    known.insert(known.end(),
                 {"stage", "offload_param", "log_trace_cache_warnings", "allgather_sequential",
                  "stage3_allgather_sequential", "stage3_gather_16bit_weights_on_model_save",
                  "gather_16bit_weights_on_model_save", "stage3_gather_fp16_weights_on_model_save"});
    return known;
  }

  void read_zero(const YamlNode& zero) {
    file_.map(zero, "zero_optimization", "for example {stage: 3}");
    file_.check_keys(zero, zero_keys(), "zero_optimization");
    read_stage(zero);
    for (const Size& size : kSizeKeys) {
      for (const std::string_view key : {size.key, size.short_key}) {
        const YamlNode* value = zero.find(key);
        if (value == nullptr) continue;
        refuse_auto(*value, size.key);
        result_.settings.*size.field = file_.count(*value, std::string(key), size.limit);
      }
    }
    for (const char* key : {"stage3_gather_fp16_weights_on_model_save", "gather_16bit_weights_on_model_save",
                            "stage3_gather_16bit_weights_on_model_save"}) {
      const YamlNode* value = zero.find(key);
      if (value != nullptr) result_.settings.gather_16bit_weights_on_model_save = file_.boolean(*value, key);
    }
    if (const YamlNode* value = zero.find("log_trace_cache_warnings")) {
      result_.settings.log_trace_cache_warnings = file_.boolean(*value, "log_trace_cache_warnings");
    }
    for (const char* key : {"allgather_sequential", "stage3_allgather_sequential"}) {
      const YamlNode* value = zero.find(key);
      if (value != nullptr) result_.settings.allgather_sequential = file_.boolean(*value, key);
    }
    read_offload(zero);
    for (const Refused& refused : kRefused) {
      const YamlNode* value = zero.find(refused.key);
      if (value == nullptr || is_off(*value, refused.off)) continue;
      file_.fail(value->place, fmt::format("{} must be {} here", refused.key, refused.off),
                 std::string(refused.why));
    }
    for (const Noted& noted : kNoted) {
      const YamlNode* value = zero.find(noted.key);
      if (value == nullptr || is_off(*value, noted.off)) continue;
      result_.notes.push_back(fmt::format("{}: {}", noted.key, noted.note));
    }
  }

  void read_stage(const YamlNode& zero) const {
    const YamlNode* stage = zero.find("stage");
    if (stage == nullptr)
      file_.fail(zero.place, "zero_optimization has no stage",
                 "without it DeepSpeed takes 0; write stage: 3");
    if (stage->scalar == "3") return;
    file_.fail(stage->place, "stage must be 3", "parameters are partitioned in stage 3 alone");
  }

  // Shards in host memory change no decision; on NVMe a read-ahead of its own comes in.
  void read_offload(const YamlNode& zero) {
    const YamlNode* offload = zero.find("offload_param");
    if (offload == nullptr || !offload->is_map()) return;
    const YamlNode* device = offload->find("device");
    if (device == nullptr || device->scalar == "none") return;
    if (device->scalar != "cpu") {
      file_.fail(device->place, fmt::format("offload_param to '{}' is not modelled", device->scalar),
                 "cpu or none: the swapper of NVMe reads ahead by rules of its own");
    }
    result_.notes.emplace_back("offload_param: copies from host memory take no time here");
  }

  // What Hugging Face's Trainer puts in place of "auto" (transformers/integrations/deepspeed.py).
  void refuse_auto(const YamlNode& value, std::string_view key) const {
    if (!value.is_scalar() || value.scalar != "auto") return;
    std::string advice = "DeepSpeed itself does not know \"auto\": write the number";
    const auto computed = [this](const char* formula, int64_t result) {
      const std::string known =
          hidden_size_ > 0 ? fmt::format(": {} for this model's {}", result, hidden_size_) : std::string();
      return fmt::format("the Hugging Face Trainer puts {} here{}", formula, known);
    };
    if (key == "stage3_prefetch_bucket_size") {
      advice = computed("int(0.9 * hidden_size * hidden_size)",
                        hidden_size_ * hidden_size_ / 10 * 9 + hidden_size_ * hidden_size_ % 10 * 9 / 10);
    }
    if (key == "stage3_param_persistence_threshold") advice = computed("10 * hidden_size", 10 * hidden_size_);
    if (key == kAccumulation)
      advice = "the Hugging Face Trainer puts its own gradient_accumulation_steps here (1 if not set)";
    file_.fail(value.place,
               fmt::format("\"auto\" for {} is filled in by a trainer, and there is none here", key), advice);
  }

  const YamlFile& file_;
  int64_t hidden_size_;
  ScenarioConfig result_;
};

}  // namespace

ScenarioConfig read_config(const YamlFile& file, const YamlNode* node, int64_t hidden_size) {
  return node == nullptr ? ScenarioConfig{} : ConfigReader(file, hidden_size).read(*node);
}

}  // namespace zero3::sim
