"""Watches checkpointed regions: torch.utils.checkpoint.checkpoint and DeepSpeed's own, wherever they are bound.

A region is what the function given to checkpoint() calls: a module, a part of one's body, or several. In backward
that function runs again, which tells what a reentrant region calls with grad, and where another one stops.
"""
import functools
import inspect
import sys
from typing import Any, Callable, List

from zero3probe.record.recorder import Recorder
from zero3probe.record.tape import RAISED, Pass, Recomputed, Tape, add_nodes

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
    grad_enabled = torch.is_grad_enabled

    def zero3probe_checkpoint(function, *args, **kwargs):
        tape = recorder.tape
        if tape is None or not (grad_enabled() or recorder.regions > 0):
            return original(function, *args, **kwargs)
        kind = kind_of(kwargs)
        regions: List[Recomputed] = []

        def zero3probe_region(*inner, **named):
            if regions:
                return _again(recorder, regions[0], lambda: function(*inner, **named))
            regions.append(recorder.enter_region(kind))
            recorder.regions += 1
            try:
                return function(*inner, **named)
            finally:
                recorder.regions -= 1
        try:
            result = original(zero3probe_region, *args, **kwargs)
        except BaseException:
            tape.codes += [RAISED] * len(regions)
            raise
        if regions:
            tape.outputs(result, recorder.tensor)
        return result
    functools.update_wrapper(zero3probe_checkpoint, original)
    return zero3probe_checkpoint


def _again(recorder: Recorder, region: Recomputed, run: Callable[[], Any]) -> Any:
    tape, outer = Tape(), (recorder.tape, recorder.running, recorder.given)
    recorder.tape, recorder.running, recorder.given = tape, region.module, None
    recorder.regions += 1
    try:
        result = run()
        region.passes.append(Pass(tape, False))
        if region.kind == "reentrant":
            roots: List[Any] = []
            add_nodes(result, recorder.tensor, roots)
            tape.backward_begins(roots, recorder.executes)
        return result
    except BaseException as error:
        if type(error).__name__ == _EARLY_STOP:
            region.passes.append(Pass(tape, True))
        raise
    finally:
        if region.kind != "reentrant":
            tape.nodes = []
        recorder.tape, recorder.running, recorder.given = outer
        recorder.regions -= 1
