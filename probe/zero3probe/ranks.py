"""All ranks of a run, forked from a process that has imported DeepSpeed: their lines, however they end."""
import contextlib
import dataclasses
import gc
import json
import os
import select
import shutil
import signal
import tempfile
import time
from typing import Any, Callable, Dict, List

from zero3probe import rank, trace
from zero3probe.installed import Installed
from zero3probe.run import Op, Run, Statement
from zero3probe.tap import Tap

_REFUSED = b'{"event":"refused"'
_LAST_WORD = 5.0  # seconds beyond its timeout that a rank has to say where it is


class _Child:
    """A rank's process as its parent sees it."""

    def __init__(self, number: int, pid: int, lines: int, control: int) -> None:
        self.number = number
        self.pid = pid
        self.lines = lines
        self.control = control
        self.pending = b""  # read, and not yet written: an earlier rank comes first
        self.tail = b""  # the last whole lines
        self.open = True
        self.killed = False
        self.refused = False

    def read(self) -> bytes:
        """What has come, b"" at the end."""
        data = os.read(self.lines, 1 << 16)
        if not data:
            os.close(self.lines)
            self.open = False
        self.tail = (self.tail + data)[-(1 << 17):]
        self.refused = self.last_line().startswith(_REFUSED)
        return data

    def last_line(self) -> bytes:
        """The last whole line that has come, without its end."""
        return self.tail.rpartition(b"\n")[0].rpartition(b"\n")[2]

    def statement(self) -> int:
        """The statement that it was in: that of its last whole line."""
        try:
            return json.loads(self.last_line().decode("utf-8", "replace"))["statement"]
        except (ValueError, KeyError):
            return 0


class Runner:
    """Runs one run after the other. `freeze`: once, when everything is imported."""

    def __init__(self, installed: Installed, tap: Tap, timeout: float) -> None:
        self._installed = installed
        self._tap = tap
        self._timeout = timeout

    def freeze(self) -> None:
        """DeepSpeed collects garbage ten times an engine: not what was imported."""
        gc.collect()
        gc.freeze()

    def run(self, run: Run, write: Callable[[bytes], None]) -> int:
        """Writes the lines of all ranks. Returns the gravest end of one: DONE, RAISED, TIMED_OUT, REFUSED."""
        shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        folder = tempfile.mkdtemp(prefix="zero3probe-", dir=shared)
        try:
            loading = _engines_that_load_first(run)
            if loading:
                self._run_ranks(_earlier_job(run, loading), folder, lambda lines: None)
                with contextlib.suppress(FileNotFoundError):
                    os.remove(rank.store_in(folder))
            return self._run_ranks(run, folder, write)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _run_ranks(self, run: Run, folder: str, write: Callable[[bytes], None]) -> int:
        children: List[_Child] = []
        try:
            for number in range(run.ranks):
                children.append(self._fork(run, number, folder, children))
            return self._gather(children, write)
        finally:
            for child in children:
                _end(child)

    def _fork(self, run: Run, number: int, folder: str, others: List[_Child]) -> _Child:
        lines, lines_end = os.pipe()
        control_end, control = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                for other in others:
                    os.close(other.lines)
                    os.close(other.control)
                os.close(lines)
                os.close(control)
                rank.Rank(run, number, self._installed, self._tap, lines_end, control_end).work(folder,
                                                                                               self._timeout)
            finally:
                os._exit(rank.REFUSED)
        os.close(lines_end)
        os.close(control_end)
        return _Child(number, pid, lines, control)

    def _gather(self, children: List[_Child], write: Callable[[bytes], None]) -> int:
        deadline = time.monotonic() + self._timeout + _LAST_WORD
        writing = 0  # the rank whose lines go straight through
        hurried = len(children) == 1
        while any(child.open for child in children):
            left = deadline - time.monotonic()
            ready = select.select([child.lines for child in children if child.open], [], [], max(left, 0))[0]
            if not ready:
                for child in children:
                    if child.open:
                        child.killed = True
                        os.kill(child.pid, signal.SIGKILL)
                deadline = time.monotonic() + _LAST_WORD
            for child in children:
                if child.lines in ready and child.open:
                    child.pending += child.read()
            if any(child.refused for child in children):
                return _refused(children, children[writing], write)
            if not hurried and not all(child.open for child in children):
                hurried = True
                _hurry(children)
            while writing < len(children):
                child = children[writing]
                write(child.pending)
                child.pending = b""
                if child.open:
                    break
                writing += 1
        return max(self._end_of(child, write) for child in children)

    def _end_of(self, child: _Child, write: Callable[[bytes], None]) -> int:
        os.close(child.control)
        child.control = -1
        _, status = os.waitpid(child.pid, 0)
        child.pid = 0
        if not os.WIFSIGNALED(status):
            return os.WEXITSTATUS(status)
        keys: Dict[str, Any] = {"rank": child.number, "statement": child.statement()}
        if child.killed:
            write(trace.line(dict(keys, event="timeout",
                                  text="not done after %g s, and does not say where it is" % self._timeout)))
            return rank.TIMED_OUT
        number = os.WTERMSIG(status)
        write(trace.line(dict(keys, event="died", text="killed by signal %d (%s)"
                              % (number, signal.Signals(number).name))))
        return rank.RAISED


def _engines_that_load_first(run: Run) -> List[int]:
    """Those that load a checkpoint, on some rank, before they have saved one: an earlier job has."""
    loading = set()
    for program in run.programs:
        saved = set()
        for op in (op for statement in program for op in statement.ops):
            if op.op == "save_checkpoint":
                saved.add(op.engine)
            elif op.op == "load_checkpoint" and op.engine not in saved:
                loading.add(op.engine)
    return sorted(loading)


def _earlier_job(run: Run, engines: List[int]) -> Run:
    """A job of the same engines in which these save a checkpoint each."""
    program = [Statement("c", [Op("save_checkpoint", engine=engine)]) for engine in engines]
    return dataclasses.replace(run, programs=[program for _ in run.programs])


def _refused(children: List[_Child], writing: _Child, write: Callable[[bytes], None]) -> int:
    """Writes the first refusal; what the other ranks may still be doing is of no interest."""
    refusing = next(child for child in children if child.refused)
    write(refusing.pending if refusing is writing else refusing.last_line() + b"\n")
    return rank.REFUSED


def _hurry(children: List[_Child]) -> None:
    """Tells those at work that another rank has ended."""
    for child in children:
        if child.open:
            try:
                os.write(child.control, rank.HURRY)
            except OSError:  # it has just ended too
                pass


def _end(child: _Child) -> None:
    """Whatever happened, the process is gone after this."""
    if child.open:
        os.close(child.lines)
    if child.control >= 0:
        os.close(child.control)
    if child.pid:
        try:
            os.kill(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.waitpid(child.pid, 0)
