"""What `zero3probe record` adds to a training step: a small Llama from a config, ZeRO-3, one rank, on CPU.

    PYTHONPATH=FOLDER_WITH_TRANSFORMERS $(scripts/deepspeed-env latest) bench/record_overhead.py [OPTIONS]

Steps with and without the recorder take turns, in blocks, within one process: what the recorder replaced is put back
for a plain block, its hooks are taken off. Times are CPU seconds of the process, since others use the machine too.
Beside them stands what does not depend on the machine: the calls and bytecodes that a step executes.
"""
import argparse
import contextlib
import gc
import os
import random
import statistics
import sys
import time
from typing import Any, Callable, Dict, Iterator, List, Tuple

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "probe", "training"))
_WARM_UP_STEPS = 2  # after a change of sides: Python specialises anew, the recorder writes its plan
_MISSING = object()


class Toggle:
    """The recorder's replacements of attributes, and its hooks, on or off."""

    def __init__(self) -> None:
        self._places = [(owner, dict(vars(owner))) for owner in _owners()]
        self._changed: List[Tuple[Any, str, Any, Any]] = []
        self._hooks: List[Tuple[Any, int, Any]] = []

    def installed(self) -> None:
        """The recorder is there: what differs is its own."""
        for owner, before in self._places:
            for name, value in vars(owner).items():
                if before.get(name, _MISSING) is not value:
                    self._changed.append((owner, name, before[name], value))

    def hooked(self, recorder: Any) -> None:
        for module in recorder.model.objects:
            hooks = module._forward_pre_hooks
            self._hooks += [(hooks, key, hook) for key, hook in hooks.items() if hook is recorder.input_hook]

    def set(self, on: bool) -> None:
        for owner, name, before, after in self._changed:
            setattr(owner, name, after if on else before)
        for hooks, key, hook in self._hooks:
            hooks.pop(key, None)
            if on:
                hooks[key] = hook


def _owners() -> List[Any]:
    """What the recorder replaces attributes of."""
    import torch
    from deepspeed.runtime.engine import DeepSpeedEngine
    from deepspeed.runtime.zero import parameter_offload, partition_parameters
    return [torch.nn.Module, torch.Tensor, DeepSpeedEngine, partition_parameters.GatheredParameters,
            parameter_offload.ZeROOrderedDict, parameter_offload.DeepSpeedZeRoOffload]


def make_step(args: argparse.Namespace, toggle: Toggle, recorder: Any) -> Callable[[], None]:
    """One step of training as a function."""
    import torch
    import train_hf
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = train_hf.make_model("llama", args.layers, args.width)
    if args.checkpoint:
        model.gradient_checkpointing_enable({"use_reentrant": args.checkpoint == "reentrant"})
    engine = train_hf.make_engine(model, argparse.Namespace(prefetch=3000, reuse=2000, gas=1))
    toggle.hooked(recorder)
    tokens = torch.randint(1, 64, (args.batch, args.length))

    def step() -> None:
        engine.train()
        loss = engine(input_ids=tokens, labels=tokens).loss
        engine.backward(loss)
        engine.step()
    return step


def times(args: argparse.Namespace, step: Callable[[], None], toggle: Toggle) -> Dict[bool, List[List[float]]]:
    """CPU seconds of each step, by block."""
    taken: Dict[bool, List[List[float]]] = {False: [], True: []}
    for block in range(args.blocks):
        for on in ((False, True), (True, False))[block % 2]:
            toggle.set(on)
            for _ in range(_WARM_UP_STEPS):
                step()
            gc.collect()
            seconds = []
            for _ in range(args.steps):
                began = time.process_time()
                step()
                seconds.append(time.process_time() - began)
            taken[on].append(seconds)
    return taken


@contextlib.contextmanager
def counted(counts: Dict[str, int], opcodes: bool) -> Iterator[None]:
    def profile(frame: Any, event: str, value: Any) -> None:
        if event in ("call", "c_call"):
            counts[event] += 1

    def trace(frame: Any, event: str, value: Any) -> Callable:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        counts["opcode"] += event == "opcode"
        return trace
    (sys.settrace if opcodes else sys.setprofile)(trace if opcodes else profile)
    try:
        yield
    finally:
        sys.settrace(None)
        sys.setprofile(None)


def count(step: Callable[[], None], toggle: Toggle) -> Dict[bool, Dict[str, int]]:
    """Python calls, C calls and bytecodes of one step, without and with the recorder."""
    result = {}
    for on in (False, True):
        toggle.set(on)
        for _ in range(_WARM_UP_STEPS):
            step()
        result[on] = {"call": 0, "c_call": 0, "opcode": 0}
        for opcodes in (False, True):
            with counted(result[on], opcodes):
                step()
    return result


def report(args: argparse.Namespace, taken: Dict[bool, List[List[float]]], counts: Any) -> None:
    print("%d layers, width %d, %d sequences of %d; %d blocks of %d steps each%s" %
          (args.layers, args.width, args.batch, args.length, args.blocks, args.steps,
           ", checkpointing %s" % args.checkpoint if args.checkpoint else ""))
    every = {on: sorted(each * 1e3 for block in blocks for each in block) for on, blocks in taken.items()}
    for name, place in (("minimum", 0.0), ("lower decile", 0.1), ("median", 0.5)):
        plain, recorded = (every[on][int(place * len(every[on]))] for on in (False, True))
        print("%s step, CPU ms: plain %.3f, recorded %.3f: %+.2f %%"
              % (name, plain, recorded, (recorded / plain - 1) * 100))
    ratios = sorted((statistics.median(recorded) / statistics.median(plain) - 1) * 100
                    for plain, recorded in zip(taken[False], taken[True]))
    quarter, sure = len(ratios) // 4, min(len(ratios) ** 0.5, len(ratios) / 2 - 1)  # ranks: 95 % of a median
    print("of pairs of blocks: median %+.2f %%, 95 %% sure within %+.2f to %+.2f %%; quartiles %+.2f to %+.2f %%"
          % (statistics.median(ratios), ratios[int(len(ratios) / 2 - sure)], ratios[int(len(ratios) / 2 + sure)],
             ratios[quarter], ratios[-1 - quarter]))
    for key, name in (("call", "Python calls"), ("c_call", "C calls"), ("opcode", "bytecodes")):
        print("%s a step: plain %d, recorded %d: %+d" % (name, counts[False][key], counts[True][key],
                                                         counts[True][key] - counts[False][key]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, default in (("layers", 4), ("width", 128), ("length", 64), ("batch", 2), ("steps", 5),
                          ("blocks", 100)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--checkpoint", choices=("", "reentrant", "non-reentrant"), default="")
    parser.add_argument("--out", default=os.devnull, metavar="FILE", help="the run file")
    args = parser.parse_args()
    for name, value in (("RANK", 0), ("WORLD_SIZE", 1), ("LOCAL_RANK", 0), ("MASTER_ADDR", "127.0.0.1"),
                        ("MASTER_PORT", random.randrange(20000, 40000)), ("GLOO_SOCKET_IFNAME", "lo")):
        os.environ.setdefault(name, str(value))
    import deepspeed
    import deepspeed.runtime.zero.stage3  # noqa: F401
    import torch
    from zero3probe.record.recorder import Recorder
    from zero3probe.record.watch import install
    toggle = Toggle()
    recorder = Recorder(args.out, "record_overhead.py", None, None, deepspeed.__version__, torch.__version__)
    install(recorder)
    toggle.installed()
    step = make_step(args, toggle, recorder)
    taken = times(args, step, toggle)
    report(args, taken, count(step, toggle))


if __name__ == "__main__":
    main()
