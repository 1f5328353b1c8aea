"""Writing traces of docs/trace-format.md: whole or marked. A file has its name only when it is whole."""
import errno
import os
from typing import Any, Dict, Optional

from zero3probe.run_writer import dumps

FORMAT = "zero3sim-trace"
VERSION = 1


class CannotWrite(Exception):
    """A trace could not be written; the text says why, and what is left."""


def line(item: Dict[str, Any]) -> bytes:
    """One line of a trace."""
    return (dumps(item) + "\n").encode("utf-8", "replace")


def header(scenario: str, deepspeed: str, ranks: int, seed: int, source: Dict[str, Any]) -> bytes:
    """The first line of a run's trace."""
    return line({"format": FORMAT, "version": VERSION, "scenario": scenario, "deepspeed": deepspeed,
                 "ranks": ranks, "seed": seed, "source": source})


def end() -> bytes:
    return line({"event": "end"})


class Output:
    """Where traces go: a file descriptor, or a file that is `path`.partial until `close` renames it."""

    def __init__(self, path: Optional[str], descriptor: int = 1) -> None:
        self._path = path
        self._descriptor = descriptor
        if path is None:
            return
        if os.path.exists(path) and not os.path.isfile(path):
            raise CannotWrite("cannot write the trace %s: it is there and no regular file" % path)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            self._descriptor = os.open(path + ".partial", flags, 0o666)
        except OSError as error:
            raise CannotWrite("cannot write the trace %s: %s" % (path, error.strerror)) from None

    def write(self, data: bytes) -> None:
        """All of it. Raises CannotWrite; the file `path`.partial then holds what came before."""
        try:
            while data:
                data = data[os.write(self._descriptor, data):]
        except OSError as error:
            raise CannotWrite(self._what_is_left(error)) from None

    def close(self) -> None:
        """The file is whole."""
        if self._path is None:
            return
        try:
            os.close(self._descriptor)
            os.replace(self._path + ".partial", self._path)
        except OSError as error:
            raise CannotWrite(self._what_is_left(error)) from None

    def _what_is_left(self, error: OSError) -> str:
        if self._path is None:
            if error.errno == errno.EPIPE:
                return "nobody reads the trace any more"
            return "cannot write the trace: %s" % error.strerror
        return ("cannot write the trace %s: %s; what was recorded before is in %s.partial, which ends in the "
                "middle" % (self._path, error.strerror, self._path))
