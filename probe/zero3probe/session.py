"""What `run` and `serve` share: DeepSpeed imported and tapped, its prints kept away, runs written as traces."""
import os
import sys
from typing import Callable, List

from zero3probe import trace
from zero3probe.compat import Unavailable, release_text
from zero3probe.installed import Installed, import_deepspeed
from zero3probe.run import Run

_OUTCOMES = {0: 0, 1: 1, 2: 3, 3: 2}  # of a rank's process: done, raised, timed out, refused


_stderr = 2


def say(text: str) -> None:
    """A line on stderr."""
    os.write(_stderr, ("zero3probe: %s\n" % text).encode("utf-8", "replace"))


def stderr() -> int:
    """The descriptor of the real stderr."""
    return _stderr


def keep_output() -> int:
    """Sends what DeepSpeed prints nowhere, unless ZERO3PROBE_DEBUG is set. Returns the real stdout."""
    global _stderr
    _stderr = os.dup(2)
    stdout = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(2 if os.environ.get("ZERO3PROBE_DEBUG") else nowhere, 1)
    if not os.environ.get("ZERO3PROBE_DEBUG"):
        os.dup2(nowhere, 2)
    os.close(nowhere)
    return stdout


def exit_code(work: Callable[[], int]) -> int:
    """What `work` returns; where DeepSpeed is not to be had or its output cannot be written, says so."""
    try:
        return work()
    except Unavailable as error:
        say(str(error))
        return 5
    except trace.CannotWrite as error:
        say(str(error))
        return 2


class Session:
    """The installed DeepSpeed, ready to run. Raises compat.Unavailable."""

    def __init__(self, timeout: float) -> None:
        self.installed: Installed = import_deepspeed()
        from zero3probe import engine_calls  # noqa: F401  imported once, before the forks
        from zero3probe.warm_up import warm_up
        from zero3probe.ranks import Runner
        from zero3probe.tap import Tap, install
        tap = Tap()
        install(tap)
        self._runner = Runner(self.installed, tap, timeout)
        warm_up(self.installed, self._runner.run)
        self._runner.freeze()

    def run(self, run: Run, write: Callable[[bytes], None]) -> int:
        """One run as a trace, with its end line. Returns its exit code."""
        write(self.header(run.name, run.ranks, run.seed))
        refusal = self._refusal(run)
        if refusal:
            write(trace.line({"event": "refused", "text": refusal}))
            outcome = 2
        else:
            outcome = _OUTCOMES.get(self._runner.run(run, write), 1)
        write(trace.end())
        return outcome

    def header(self, name: str, ranks: int, seed: int) -> bytes:
        return trace.header(name, release_text(self.installed.release), ranks, seed,
                            self.installed.source(_command()))

    def _refusal(self, run: Run) -> str:
        if run.root_flows:
            return ("a recorded run needs its own script: run that on this release with `python -m zero3probe "
                    "record --trace TRACE -- SCRIPT`, then `zero3sim verify --trace TRACE RUN`; `zero3sim replay` "
                    "says what the model of each release does")
        if self.installed.on_gpu:
            import torch
            if torch.cuda.device_count() < run.ranks:
                return "%d ranks need as many GPUs; there are %d" % (run.ranks, torch.cuda.device_count())
        return ""


def _command() -> List[str]:
    return ["python", "-m", "zero3probe"] + sys.argv[1:]
