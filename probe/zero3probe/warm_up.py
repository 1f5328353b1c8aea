"""What every engine would do again in its own process, done once before the forks: imports and probes.

Nothing here decides what DeepSpeed does; ZERO3PROBE_COLD=1 leaves it out.
"""
import importlib
import os
import sys
from typing import Callable

from zero3probe.installed import Installed
from zero3probe.run import Call, Engine, Module, Op, Param, Run, Statement


def warm_up(installed: Installed, run_in_child: Callable[[Run, Callable[[bytes], None]], int]) -> None:
    """Runs a small program in a process of its own and imports here what it had to import there."""
    if os.environ.get("ZERO3PROBE_COLD"):
        return
    if not installed.on_gpu:
        _without_inference_op()
    known = set(sys.modules)
    report = os.memfd_create("zero3probe-modules")

    def tell(data: bytes) -> None:
        pass

    def note_modules() -> None:
        os.write(report, "\n".join(name for name in sys.modules if name not in known).encode())
    Hook.after_program = note_modules
    run_in_child(_small_run(), tell)
    Hook.after_program = None
    os.lseek(report, 0, os.SEEK_SET)
    with os.fdopen(report, encoding="utf-8") as names:
        for name in names.read().split():
            _import(name)
    _probe_ops()


class Hook:
    """What a rank does when its program is over; set around the warm-up alone."""
    after_program = None


def _small_run() -> Run:
    config = {"gradient_accumulation_steps": 1, "zero_optimization": {"stage": 3}}
    ops = [Op("train"), Op("forward", plan=0), Op("backward"), Op("step"), Op("save_16bit_model")]
    return Run(name="warm-up", deepspeed_config=config, engines=[Engine()],
               modules=[Module("root", children=[("a", 1)]),
                        Module("a", "Linear", [Param("weight", (8, 8))])],
               plans=[[Call(1)]], programs=[[Statement("t:a", ops), Statement("t:a", ops)]])


def _import(name: str) -> None:
    try:
        importlib.import_module(name)
    except Exception:  # made by hand, or optional: whoever needs it gets it then
        pass


def _without_inference_op() -> None:
    """The CPU's shared-memory all-reduce, which inference alone calls, and every engine would set up."""
    home = sys.modules.get("deepspeed.comm.torch")
    if hasattr(home, "build_shm_op"):
        home.build_shm_op = lambda: None


def _probe_ops() -> None:
    """Later releases probe at first use which of their C++ ops would compile here."""
    ops = sys.modules.get("deepspeed.ops")
    try:
        getattr(ops, "__compatible_ops__", None)
    except Exception:  # as for an engine: the probe's failure is not its own
        pass
