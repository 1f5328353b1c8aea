"""Watches checkpointed regions: torch.utils.checkpoint.checkpoint and DeepSpeed's own, wherever they are bound.

A region is what the function given to checkpoint() calls: a module, a part of one's body, or several. In backward
that function runs again, which tells what a reentrant region calls with grad, and where another one stops.
"""
import functools
import inspect
import sys
from typing import Any, Callable, List

from zero3probe.record.plans import Ends, Region
from zero3probe.record.recorder import Recorder, ends_of

_EARLY_STOP = "_StopRecomputationError"  # torch 2.1 and later
_DEEPSPEEDS = "deepspeed.runtime.activation_checkpointing.checkpointing"


def watch_regions(recorder: Recorder) -> None:
    """From now on, in modules that are loaded already too."""
    import torch.utils.checkpoint as home
    original = home.checkpoint
    bind(original, _watched(recorder, original, lambda named: _kind(home, original, named)))
    deepspeeds = sys.modules.get(_DEEPSPEEDS)
    if deepspeeds is not None:
        theirs = deepspeeds.checkpoint
        bind(theirs, _watched(recorder, theirs, lambda named: "reentrant"))


def bind(original: Callable, watched: Callable) -> None:
    """In place of the original, under whatever name a module has it."""
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", {})
        for name in [name for name, value in list(names.items()) if value is original]:
            setattr(module, name, watched)


def _kind(home: Any, checkpoint: Callable, named: Any) -> str:
    reentrant = named.get("use_reentrant")
    if reentrant is None:
        parameter = inspect.signature(checkpoint).parameters.get("use_reentrant")
        reentrant = parameter is None or parameter.default is not False
    if reentrant:
        return "reentrant"
    return "non-reentrant" if hasattr(home, "set_checkpoint_early_stop") else "whole-recompute"


def _watched(recorder: Recorder, original: Callable, kind_of: Callable[[Any], str]) -> Callable:
    import torch
    is_tensor, grad_enabled = torch.is_tensor, torch.is_grad_enabled

    def zero3probe_checkpoint(function, *args, **kwargs):
        if not recorder.frames or not (grad_enabled() or recorder.in_region()):
            return original(function, *args, **kwargs)
        kind = kind_of(kwargs)
        regions: List[Region] = []

        def zero3probe_region(*inner, **named):
            if regions:
                return _again(recorder, regions[0], lambda: function(*inner, **named), is_tensor)
            regions.append(recorder.enter_region(kind))
            try:
                return function(*inner, **named)
            finally:
                recorder.leave(regions[0])
        result = original(zero3probe_region, *args, **kwargs)
        if regions:
            ends_of(result, regions[0].outputs, is_tensor)
        return result
    functools.update_wrapper(zero3probe_checkpoint, original)
    return zero3probe_checkpoint


def _again(recorder: Recorder, region: Region, run: Callable[[], Any], is_tensor: Callable[[Any], bool]) -> Any:
    again = recorder.enter_again(region)
    try:
        result = run()
        ends = Ends()
        ends_of(result, ends, is_tensor)
        region.recompute(again, ends.plain + ends.contained)
        return result
    except BaseException as error:
        if type(error).__name__ == _EARLY_STOP:
            region.stopped(again)
        raise
    finally:
        recorder.leave(again)
