"""One rank, in a process of its own: builds the engines, does its statements, writes events as they happen."""
import os
import select
import signal
import threading
import time
from typing import Any, Dict, Optional

from zero3probe import trace
from zero3probe.failure import failure_keys, where_is
from zero3probe.installed import Installed
from zero3probe.run import Op, Run, Statement
from zero3probe.refusal import CannotRun
from zero3probe.tap import Tap, is_active
from zero3probe.warm_up import Hook

DONE, RAISED, TIMED_OUT, REFUSED = 0, 1, 2, 3  # exit status of a rank's process
HURRY = b"h"  # the parent's word that another rank has ended


class Rank:
    """`lines`: descriptor for the trace; `control`: the parent's; its end is closed when the rank may go."""

    def __init__(self, run: Run, number: int, installed: Installed, tap: Tap, lines: int,
                 control: int) -> None:
        self._run = run
        self._number = number
        self._installed = installed
        self._tap = tap
        self._lines = lines
        self._control = control
        self._lock = threading.Lock()
        self._statement = 0
        self._doing = "building the engines"
        self._main = threading.current_thread()
        self._done = False

    def work(self, folder: str, timeout: float) -> None:
        """Runs the program and ends the process. `folder`: for checkpoints, and where the ranks meet; seconds."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        deadline = time.monotonic() + timeout
        watchdog = threading.Thread(target=self._watch, args=(deadline, timeout), daemon=True)
        watchdog.start()
        status = RAISED
        try:
            status = self._run_program(folder)
        except BaseException as error:
            self._refuse(error)
            status = REFUSED
        finally:
            with self._lock:
                self._done = True
                os.close(self._lines)
            watchdog.join()  # stay until the parent lets go: others may still talk to this rank
            os._exit(status)

    def _run_program(self, folder: str) -> int:
        self._join_group(folder)
        from zero3probe.engine_calls import Engines  # imports torch
        engines = Engines(self._run, self._number, self._installed, folder)
        self._name_things(engines)
        for index, statement in enumerate(self._run.programs[self._number]):
            self._statement = index
            self._write({"event": "statement", "text": statement.text})
            failure = self._do(engines, statement)
            end: Dict[str, Any] = {"event": "statement-end", "statuses": self._statuses(engines)}
            if failure is not None:
                end["failure"] = failure
            self._write(end)
            if failure is not None:
                return RAISED
        if Hook.after_program is not None:
            Hook.after_program()
        return DONE

    def _join_group(self, folder: str) -> None:
        import torch
        import torch.distributed as dist
        number, ranks = self._number, self._run.ranks
        os.environ.update(RANK=str(number), WORLD_SIZE=str(ranks), LOCAL_RANK=str(number),
                          LOCAL_SIZE=str(ranks))
        torch.manual_seed(1)
        if self._installed.on_gpu:
            torch.cuda.set_device(number)
        store = dist.HashStore() if ranks == 1 else dist.FileStore(store_in(folder), ranks)
        dist.init_process_group("nccl" if self._installed.on_gpu else "gloo", store=store, rank=number,
                                world_size=ranks)

    def _name_things(self, engines: Any) -> None:
        tap = self._tap
        tap.rank = self._number
        tap.module_names = {id(module): module.probe_name for module in engines.model.modules}
        tap.param_names = {id(param): name for name, param in engines.model.param_names}
        tap.sink = lambda event, keys: self._write(dict({"event": event}, **keys))
        self._shown = [(_short(tap.param_names[id(param)]), param) for param in engines.parameters()]

    def _do(self, engines: Any, statement: Statement) -> Optional[Dict[str, Any]]:
        self._tap.recording = True
        try:
            for position, op in enumerate(statement.ops):
                self._doing = _described(op)
                engines.do(op, self._statement, position)
        except CannotRun:
            raise
        except Exception as error:
            return failure_keys(error, self._installed.folder, self._tap.wrappers)
        finally:
            self._tap.recording = False
        return None

    def _statuses(self, engines: Any) -> str:
        return " ".join("%s=%s%s" % (name, self._tap.status_letter(param), "*" if is_active(param) else "")
                        for name, param in self._shown)

    def _write(self, item: Dict[str, Any]) -> None:
        data = trace.line(dict({"rank": self._number, "statement": self._statement}, **item))
        with self._lock:
            self._write_bytes(data)

    def _write_bytes(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._lines, data):]

    def _refuse(self, error: BaseException) -> None:
        text = str(error) if isinstance(error, CannotRun) else "%s: %s" % (type(error).__name__, error)
        with self._lock:
            self._write_bytes(trace.line({"event": "refused", "text": text}))

    def _watch(self, deadline: float, timeout: float) -> None:
        """Ends the process at the deadline, or with the parent; sooner when another rank has ended."""
        after = "after %g s" % timeout
        while True:
            left = None if self._done else max(deadline - time.monotonic(), 0)
            if left == 0:
                break
            if not select.select([self._control], [], [], left)[0]:
                continue
            if os.read(self._control, 1) != HURRY:
                if not self._done:
                    os._exit(DONE)  # the parent is gone
                return
            deadline = min(deadline, time.monotonic() + timeout / 4)
            after = "%g s after another rank ended" % (timeout / 4)
        where = where_is(self._main, self._installed.folder, self._tap.wrappers)
        text = "not done %s: %s, %s" % (after, self._doing, where)
        if self._lock.acquire(timeout=1):
            self._write_bytes(trace.line({"rank": self._number, "statement": self._statement,
                                          "event": "timeout", "text": text}))
            os.close(self._lines)
            # Stay until the parent lets go: an end would be an error to those that wait for this rank.
            while os.read(self._control, 1) == HURRY:
                pass
        os._exit(TIMED_OUT)


def store_in(folder: str) -> str:
    """The file where several ranks meet."""
    return os.path.join(folder, "store")


def _short(name: str) -> str:
    """The last two parts of a qualified name."""
    parts = name.split(".")
    return ".".join(parts[-2:]) if len(parts) > 1 else "root." + name


def _described(op: Op) -> str:
    return op.op if op.engine == 0 else "%s of engine %d" % (op.op, op.engine)
