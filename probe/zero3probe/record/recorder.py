"""What the watched calls are told to: keeps the forwards that run, and writes operations in their order.

One recorder a process, which is one rank. A forward that autograd follows is written when its backward is
over, or something shows that none comes; the operations after it wait with it. A crash or an exit writes them.
"""
import os
import platform
import sys
from typing import Any, Dict, List, Optional

from zero3probe import trace as trace_format
from zero3probe.record.model import ModelMap, has_optimizer, header_run, settings_of
from zero3probe.record.plans import Plans
from zero3probe.record.tape import Recomputed, Tape, reachable
from zero3probe.record.writer import Lines, say
from zero3probe.run import Engine, Op, Raised
from zero3probe.run_writer import dumps, header_of, op_item, raised_item


_TEXT_LENGTH = 20000  # of an error, characters
NO_MODULE = -1


class Pending:
    """An operation that is not written yet; of a forward, its calls. `root`: the model itself was called."""
    __slots__ = ("op", "text", "tape", "root", "raised")

    def __init__(self, op: Op, text: str) -> None:
        self.op = op
        self.text = text
        self.tape = Tape()
        self.root = False
        self.raised: Optional[Raised] = None


class Recorder:
    """Writes `path`; with `trace_path`, every event of the coordinator beside it."""

    def __init__(self, path: str, name: str, tap: Any, trace_path: Optional[str], deepspeed: str,
                 torch: str) -> None:
        self.model = ModelMap()
        self.engines: List[Any] = []
        self.roots: Dict[int, List[int]] = {}  # engines by id(model)
        self.rank, self.ranks = 0, 1
        self.tape: Optional[Tape] = None  # of the module calls that run; None: none does
        self.running = NO_MODULE  # the innermost
        self.given: Any = None  # what it was called with, until its inputs are on the tape
        self.regions = 0  # that run
        self.depth = 0  # operations within operations are DeepSpeed's own
        self.current: Optional["Pending"] = None  # the engine's forward that runs
        self.input_hook: Optional[Any] = None
        self.in_backward = False
        self.tensor: type = type(None)  # torch.Tensor
        self.executes: Any = None  # autograd's own answer whether the backward that runs comes to a node
        self._path, self._name, self._trace_path = path, name, trace_path
        self._source = {"deepspeed": deepspeed, "torch": torch, "python": platform.python_version(),
                        "command": " ".join(["python", "-m", "zero3probe"] + sys.argv[1:])}
        self._tap = tap
        self._lines: Optional[Lines] = None
        self._trace: Optional[Lines] = None
        self._plans = Plans(self._write)
        self._pending: List[Pending] = []
        self._statements = 0  # begun
        self._counts: Dict[str, int] = {}
        self._training: List[bool] = []
        self._notes: set = set()
        self._closed = False

    # Engines

    def add_engine(self, engine: Any) -> None:
        """An engine that deepspeed.initialize made. Engines of other stages are not recorded."""
        if getattr(engine, "zero_optimization_stage", lambda: 0)() != 3:
            self.note("an engine that is not ZeRO stage 3 is not recorded")
            return
        if self._lines is not None:
            self.note("an engine made after the first step of another is not recorded")
            return
        import torch.distributed as dist
        if dist.is_initialized():
            self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.model.add_root(engine.module)
        self.model.add_externals()
        if not self.model.ids_in_order():
            self.note("parameters were made in another order than the modules list them (zero.Init): "
                      "ds_ids in replays differ")
        self.roots.setdefault(id(engine.module), []).append(len(self.engines))
        self.engines.append(engine)
        self._training.append(True)

    def engine_of(self, engine: Any) -> int:
        """Its number; -1: not recorded."""
        for number, known in enumerate(self.engines):
            if known is engine:
                return number
        return -1

    def note(self, text: str) -> None:
        """Says something once."""
        if text not in self._notes:
            self._notes.add(text)
            say(text)

    # Operations

    def begin(self, op: Op) -> Pending:
        """An operation starts; the tap is its until `end`."""
        if op.op == "forward" or len(self._pending) > 1000:
            self._write_pending()
        number = self._counts[op.op] = self._counts.get(op.op, 0) + 1
        text = "%s %d" % (op.op if op.grad else "forward without grad", number)
        pending = Pending(op, text)
        if self._lines is None:
            self._open()
        self._statements += 1
        self._pending.append(pending)
        if self._trace is not None:
            self._trace_line({"event": "statement", "text": text})
        if self._tap is not None:
            self._tap.recording = self._trace is not None
        return pending

    def end(self, pending: Pending, error: Optional[BaseException] = None) -> None:
        """It is over, or raised."""
        if self._tap is not None:
            self._tap.recording = False
        line: Dict[str, Any] = {"event": "statement-end", "statuses": self._statuses()}
        if error is not None:
            from zero3probe.failure import failure_keys
            keys = failure_keys(error, self._folder(), self._tap.wrappers if self._tap is not None else set())
            keys["text"] = keys["text"][:_TEXT_LENGTH]
            pending.raised = Raised(self._statements - 1, **keys)
            line["failure"] = keys
        self._trace_line(line)
        waits = any(item.root and item.op.grad for item in self._pending)
        if not waits or error is not None or pending.op.op == "backward":
            self._write_pending()

    def backward_begins(self, loss: Any) -> None:
        """Which of the last forward's tensors this loss leads back to."""
        for pending in reversed(self._pending):
            if pending.op.op == "forward":
                pending.tape.backward_begins([getattr(loss, "grad_fn", None)], self.executes)
                return

    def leads_to_engine(self, loss: Any) -> bool:
        """Whether a backward from there comes to what the engine's last forward returned."""
        for pending in reversed(self._pending):
            if pending.op.op == "forward":
                nodes = reachable(getattr(loss, "grad_fn", None)) if pending.root else set()
                return any(node in nodes for node in pending.tape.returned())
        return False

    def stop(self, why: str) -> None:
        """Records nothing more, and says why: the run can be read up to here, as one that was cut."""
        if not self._closed:
            say("%s: recorded up to there" % why)
            self.close(False, "")

    def set_training(self, engine: int, mode: bool) -> None:
        """engine.train(mode), or its model's. What changes nothing is left out."""
        if self._training[engine] == mode or self.depth > 0:
            return
        self._training[engine] = mode
        self.end(self.begin(Op("train" if mode else "eval", engine)))

    def _folder(self) -> str:
        module = sys.modules.get("deepspeed")
        return os.path.dirname(os.path.abspath(module.__file__)) if module is not None else "/"

    # Module calls

    def first_call(self) -> Tape:
        """A module is called, and none runs. DeepSpeed's own calls go on a tape that nobody keeps."""
        if self.in_backward:
            self.note("a backward calls modules again, and no checkpointed region was seen that does so: the run "
                      "file lacks it, and replays differ in backward")
        if self.in_backward or self.current is None:
            return Tape()
        self.current.root = True
        return self.current.tape

    def enter_region(self, kind: str) -> Recomputed:
        """A checkpointed region begins in the module that runs."""
        assert self.tape is not None
        region = Recomputed(self.running, kind)
        self.tape.codes.append(kind)
        self.tape.regions.append(region)
        return region

    def read(self, ref: Any) -> None:
        """A weight is read outside the module that owns it."""
        if self.tape is not None and not self.in_backward:
            self.tape.codes.append(ref)

    # Writing

    def _open(self) -> None:
        suffix = ".rank%d" % self.rank if self.ranks > 1 else ""
        settings = settings_of(self.engines[0])
        engines = [Engine(self.model.index[id(engine.module)], has_optimizer(engine))
                   for engine in self.engines]
        run = header_run(self._name, self.ranks, engines, self.model, settings, self._source)
        try:
            self._lines = Lines(self._path + suffix)
            if self._trace_path is not None:
                self._trace = Lines(self._trace_path + suffix)
        except OSError as error:
            say("nothing is recorded, the training goes on: cannot write %s: %s"
                % (self._path + suffix, error.strerror))
            self._lines = self._lines or Lines(os.devnull)
        self._write(dumps(header_of(run)))
        if self._trace is not None:
            self._name_things()
            source = dict(self._source, command=self._source["command"].split(" "))
            header = trace_format.header(self._name, source["deepspeed"], self.ranks, 0, source)
            self._trace.write(header.decode().rstrip("\n"))
        for number, engine in enumerate(self.engines):
            if not engine.module.training:
                self._training[number] = True
                self.set_training(number, False)

    def _name_things(self) -> None:
        tap = self._tap
        tap.rank = self.rank
        names = (made.name for made in self.model.modules)
        tap.module_names = {id(module): name for module, name in zip(self.model.objects, names)}
        tap.param_names = {id(param): name for name, param in self.model.shown}
        tap.sink = lambda event, keys: self._trace_line(dict({"event": event}, **keys))

    def _statuses(self) -> str:
        if self._trace is None:
            return ""
        from zero3probe.tap import is_active
        return " ".join("%s=%s%s" % (".".join(name.split(".")[-2:]), self._tap.status_letter(param),
                                     "*" if is_active(param) else "") for name, param in self.model.shown)

    def _trace_line(self, item: Dict[str, Any]) -> None:
        if self._trace is not None:
            self._trace.write(dumps(dict({"rank": self.rank, "statement": self._statements - 1}, **item)))

    def _write(self, line: str) -> None:
        if self._lines is not None:
            self._lines.write(line)

    def _write_pending(self) -> None:
        pending, self._pending = self._pending, []
        for item in pending:
            if item.op.op == "forward":
                item.op.plan = self._plans.of_tape(item.tape, item.op.direct)
            self._write(dumps({"rank": self.rank, "text": item.text, "ops": [op_item(item.op)]}))
            if item.raised is not None:
                self._write(dumps(raised_item(self.rank, item.raised)))

    def close(self, whole: bool, cut: str = ", up to the exception") -> None:
        """The script is over. `whole`: it ended by itself, and not with an exception; else `cut` says so."""
        if self._closed:
            return
        self._closed = True
        if self.tape is not None and self.given is not None:
            self.tape.inputs(self.given, self.tensor)  # DeepSpeed's hooks before this call are not over
        self._write_pending()
        for lines in (self._lines, self._trace):
            if lines is not None and whole:
                lines.write('{"end":true}' if lines is self._lines else '{"event":"end"}')
            elif lines is self._trace and lines is not None and cut:  # whole, up to what was raised
                lines.write('{"event":"end"}')
            if lines is not None:
                lines.close()
        if self._lines is None:
            say("this script made no ZeRO stage 3 engine: nothing was recorded" if not self.engines
                else "the engine was never used: nothing was recorded")
        elif not self._lines.failed:
            say("recorded %d operations in %s%s" % (self._statements, self._lines.path,
                                                    "" if whole else cut))
