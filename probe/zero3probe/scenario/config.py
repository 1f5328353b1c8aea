"""Reads `deepspeed_config`: the keys of ds_config.json, as DeepSpeed and Hugging Face document them, into the
settings of a run file. Sizes are elements of full parameters."""
from typing import Any, Dict, Optional, Tuple

from zero3probe.scenario.yaml_file import INT64_MAX, MAX_NUMEL, Node, YamlFile

MAX_ACCUMULATION = 1 << 20

# Keys that no decision of the coordinator reads.
_IGNORED = tuple("""
activation_checkpointing aio amp autotuning bf16 bfloat16 checkpoint comet comms_logger communication_data_type
compression_training csv_monitor curriculum_learning data_efficiency data_types dataloader_drop_last
disable_allgather dump_state eigenvalue elasticity flops_profiler gradient_clipping gradient_predivide_factor
graph_harvesting memory_breakdown monitor_config nebula optimizer prescale_gradients scheduler
seq_parallel_communication_data_type sparse_attention sparse_gradients steps_per_print tensorboard timers
torch_autocast train_batch_size train_micro_batch_size_per_gpu use_data_before_expert_parallelism
wall_clock_breakdown wandb zero_allow_untested_optimizer zero_force_ds_cpu_optimizer
""".split())
_IGNORED_ZERO = tuple("""
allgather_bucket_size allgather_partitions contiguous_gradients cpu_offload cpu_offload_use_pin_memory
elastic_checkpoint grad_hooks ignore_unused_parameters legacy_stage1 load_from_fp32_weights
memory_efficient_linear offload_optimizer overlap_comm override_module_apply pipeline_loading_checkpoint
reduce_bucket_size reduce_scatter round_robin_gradients sub_group_size use_multi_rank_bucket_allreduce
""".split())

# Keys that change what is fetched and that zero3sim does not model: refused unless they are off.
_REFUSED = {"stage3_module_granularity_threshold": "0", "zero_hpz_partition_size": "1",
            "zero_quantized_weights": "false", "zero_quantized_nontrainable_weights": "false",
            "mics_shard_size": "-1", "mics_hierarchical_params_gather": "false"}

# Keys that real DeepSpeed acts on without changing which params are fetched and released when.
_NOTED = ("stage3_use_all_reduce_for_fetch_params", "enable_sanity_checks",
          "zero_quantized_gradients", "zeropp_loco_param", "leaf_module")

# DeepSpeed's defaults and limits; the short name is the field's own, which releases with pydantic take too.
_SIZES: Tuple[Tuple[str, int, int], ...] = (
    ("stage3_prefetch_bucket_size", 50000000, MAX_NUMEL),
    ("stage3_max_live_parameters", 1000000000, MAX_NUMEL),
    ("stage3_max_reuse_distance", 1000000000, MAX_NUMEL),
    ("stage3_param_persistence_threshold", 100000, MAX_NUMEL),
    ("stage3_model_persistence_threshold", INT64_MAX, INT64_MAX),
)
_GATHER_KEYS = ("stage3_gather_fp16_weights_on_model_save", "gather_16bit_weights_on_model_save",
                "stage3_gather_16bit_weights_on_model_save")
_SEQUENTIAL_KEYS = ("allgather_sequential", "stage3_allgather_sequential")
_ZERO_KEYS = (_IGNORED_ZERO + tuple(key for key, _, _ in _SIZES) + tuple(key[7:] for key, _, _ in _SIZES)
              + tuple(_REFUSED) + _NOTED + ("stage", "offload_param", "log_trace_cache_warnings") + _GATHER_KEYS
              + _SEQUENTIAL_KEYS)
_TOP_KEYS = _IGNORED + ("gradient_accumulation_steps", "zero_optimization", "fp16")


def read_config(file: YamlFile, node: Optional[Node]) -> Dict[str, Any]:
    """The `deepspeed_config` of the run file; `node` is None if the scenario has none."""
    zero: Dict[str, Any] = {"stage": 3}
    zero.update((key, default) for key, default, _ in _SIZES)
    zero["stage3_gather_16bit_weights_on_model_save"] = False
    zero["log_trace_cache_warnings"] = False
    config = {"gradient_accumulation_steps": 1, "fp16": {"enabled": False}, "zero_optimization": zero}
    if node is not None:
        _read_top(file, node, config)
    return config


def _read_top(file: YamlFile, node: Node, config: Dict[str, Any]) -> None:
    file.map(node, "deepspeed_config")
    for key, place in node.keys:
        if key not in _TOP_KEYS and key in _ZERO_KEYS:
            file.fail(place, "'%s' belongs under zero_optimization" % key)
    file.check_keys(node, _TOP_KEYS, "deepspeed_config")
    steps = node.find("gradient_accumulation_steps")
    if steps is not None:
        _refuse_auto(file, steps, "gradient_accumulation_steps")
        count = file.count(steps, "gradient_accumulation_steps", MAX_ACCUMULATION)
        if count < 1:
            file.fail(steps.place, "gradient_accumulation_steps is 0")
        config["gradient_accumulation_steps"] = count
    fp16 = node.find("fp16")
    if fp16 is not None and fp16.is_map:
        enabled = fp16.find("enabled")
        if enabled is not None and not (enabled.is_scalar and enabled.scalar == "auto"):
            config["fp16"]["enabled"] = file.boolean(enabled, "enabled")
    zero = node.find("zero_optimization")
    if zero is not None:
        _read_zero(file, zero, config["zero_optimization"])


def _read_zero(file: YamlFile, node: Node, zero: Dict[str, Any]) -> None:
    file.map(node, "zero_optimization")
    file.check_keys(node, _ZERO_KEYS, "zero_optimization")
    stage = node.find("stage")
    if stage is None:
        file.fail(node.place, "zero_optimization has no stage")
    elif stage.scalar != "3":
        file.fail(stage.place, "stage must be 3")
    for key, _, limit in _SIZES:
        for name in (key, key[7:]):
            value = node.find(name)
            if value is not None:
                _refuse_auto(file, value, key)
                zero[key] = file.count(value, name, limit)
    for name in _GATHER_KEYS:
        value = node.find(name)
        if value is not None:
            zero["stage3_gather_16bit_weights_on_model_save"] = file.boolean(value, name)
    warnings = node.find("log_trace_cache_warnings")
    if warnings is not None:
        zero["log_trace_cache_warnings"] = file.boolean(warnings, "log_trace_cache_warnings")
    sequential = False
    for name in _SEQUENTIAL_KEYS:
        value = node.find(name)
        sequential = sequential if value is None else file.boolean(value, name)
    if sequential:
        zero["stage3_allgather_sequential"] = True
    _read_offload(file, node)
    for key, off in _REFUSED.items():
        value = node.find(key)
        if value is not None and not value.is_null and not (value.is_scalar and value.scalar == off):
            file.fail(value.place, "%s must be %s here" % (key, off))


def _read_offload(file: YamlFile, node: Node) -> None:
    """Shards in host memory change no decision; on NVMe a read-ahead of its own comes in."""
    offload = node.find("offload_param")
    device = None if offload is None or not offload.is_map else offload.find("device")
    if device is not None and device.scalar not in ("none", "cpu"):
        file.fail(device.place, "offload_param to '%s' is not modelled" % device.scalar)


def _refuse_auto(file: YamlFile, value: Node, key: str) -> None:
    if value.is_scalar and value.scalar == "auto":
        file.fail(value.place, "\"auto\" for %s is filled in by a trainer, and there is none here" % key)
