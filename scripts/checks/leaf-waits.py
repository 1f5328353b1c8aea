"""What a hook that waited leaves behind in the trace (docs/leaf-races.md, step-uncounted), on real DeepSpeed.

usage: PYTHONPATH=probe PY scripts/checks/leaf-waits.py ZERO3SIM WAITED

Trains the scenario of two outputs. In iteration WAITED (0: while the trace is recorded; 2: when it is complete)
the leaf's second hook returns from the fetch at once, as a thread does that has waited (v0.18.6 and later).
Prints a line an iteration: the trace's mode at its end, or what it raised.
"""
import io
import os
import subprocess
import sys
from typing import Any

from zero3probe.installed import import_deepspeed
from zero3probe.run_reader import read_runs

_SCENARIO = "scenarios/leaf-modules/qwen3-moe-two-outputs.yaml"
_COORDINATOR = "_PartitionedParameterCoordinator__"


def main() -> None:
    zero3sim, waited = sys.argv[1], int(sys.argv[2])
    installed = import_deepspeed()
    text = subprocess.run([zero3sim, "unroll", _SCENARIO], stdout=subprocess.PIPE, universal_newlines=True,
                          check=True).stdout
    run = next(read_runs(io.StringIO(text), _SCENARIO))
    import torch.distributed as dist
    from zero3probe.engine_calls import Engines
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    engines = Engines(run, 0, installed, "")
    leaf = next(made for made, module in zip(engines.model.modules, run.modules) if module.leaf)
    coordinator = engines.engines[0].optimizer.parameter_offload.get_param_coordinator()
    fetch = coordinator.fetch_sub_module
    hooks = []

    def fetch_sub_module(module: Any, forward: bool) -> Any:
        if module is leaf and not forward:
            hooks.append(module)
            if len(hooks) == 2 and iteration == waited:
                return None
        return fetch(module, forward=forward)
    coordinator.fetch_sub_module = fetch_sub_module
    for iteration, statement in enumerate(run.programs[0]):
        hooks.clear()
        try:
            for position, op in enumerate(statement.ops):
                engines.do(op, iteration, position)
        except RuntimeError as error:
            print("iteration %d: %s" % (iteration, str(error).splitlines()[0]), flush=True)
            break
        mode = getattr(coordinator, _COORDINATOR + "trace_mode").name
        print("iteration %d: %s" % (iteration, mode), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
