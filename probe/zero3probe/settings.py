"""A run's settings as the installed release takes them, and the optimizer."""
import math
from typing import Any, Dict, List

from zero3probe.compat import Release
from zero3probe.run import Run

MICRO_BATCH = 2  # rows of the input
LEARNING_RATE = 1e-6  # small, so that values stay finite over thousands of steps
_GATHER_ON_SAVE = "stage3_gather_16bit_weights_on_model_save"
_FIRST_16BIT: Release = (0, 6, 0)  # before: "fp16" in names that have "16bit" since
_NOT_IN_OLD = {"stage3_model_persistence_threshold": (0, 7, 0), "log_trace_cache_warnings": (0, 16, 4),
               "stage3_allgather_sequential": (0, 18, 5)}


def sum_of_sizes(run: Run) -> int:
    """Elements of all parameters."""
    return sum(math.prod(param.shape) for module in run.modules for param in module.params
               if param.same_as is None)


def deepspeed_config(run: Run, release: Release) -> Dict[str, Any]:
    """The dict for deepspeed.initialize. Sizes in elements, as in the run."""
    config = run.deepspeed_config
    zero = dict(config.get("zero_optimization", {}))
    zero.update(stage=3)
    zero.setdefault("reduce_bucket_size", max(10000, 4 * sum_of_sizes(run)))  # never full, and soon allocated
    zero.setdefault(_GATHER_ON_SAVE, True)
    if release < _FIRST_16BIT:
        zero[_GATHER_ON_SAVE.replace("16bit", "fp16")] = zero.pop(_GATHER_ON_SAVE)
    for key, first in _NOT_IN_OLD.items():
        if release < first:
            zero.pop(key, None)
    accumulation = config.get("gradient_accumulation_steps", 1)
    made = {"train_micro_batch_size_per_gpu": MICRO_BATCH, "gradient_accumulation_steps": accumulation,
            "train_batch_size": MICRO_BATCH * accumulation * run.ranks, "zero_allow_untested_optimizer": True,
            "zero_optimization": zero, "steps_per_print": 10**9}
    if config.get("fp16", {}).get("enabled"):
        made["fp16"] = {"enabled": True, "loss_scale": 1}  # no steps that overflow while a scale is found
    return made


def make_optimizer(params: List[Any], offloads: bool) -> Any:
    """SGD. `offloads`: as a FusedAdam without its compiled op, the one class that offload_states takes."""
    import torch
    if not offloads:
        return torch.optim.SGD(params, lr=LEARNING_RATE)
    from deepspeed.ops.adam import FusedAdam
    optimizer = FusedAdam.__new__(FusedAdam)
    torch.optim.Optimizer.__init__(optimizer, params, {"lr": LEARNING_RATE})

    def step(closure: Any = None, **ignored: Any) -> None:
        for group in optimizer.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    param.data.add_(param.grad, alpha=-group["lr"])
    optimizer.step = step
    return optimizer
