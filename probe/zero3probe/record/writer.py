"""Writes lines as they come, so that a run that is killed can be read up to there. Never breaks the script.

What cannot be written is said once, on stderr; then nothing is written: the file ends where it was cut.
"""
import sys
from typing import IO, Optional


def say(text: str) -> None:
    """A line on stderr."""
    try:
        sys.stderr.write("zero3probe: %s\n" % text)
        sys.stderr.flush()
    except (OSError, ValueError):
        pass


class Lines:
    """A file that grows by whole lines."""

    def __init__(self, path: str) -> None:
        """The file is made at once. Raises OSError."""
        self.path = path
        self.failed = False
        self._file: Optional[IO[str]] = open(path, "w", encoding="utf-8", errors="replace", buffering=1)

    def write(self, line: str) -> None:
        if self._file is None:
            return
        try:
            self._file.write(line + "\n")
            self._file.flush()
        except OSError as error:
            self._fail(error)

    def close(self) -> None:
        if self._file is None:
            return
        file, self._file = self._file, None
        try:
            file.close()
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.failed = True
        file, self._file = self._file, None
        say("recording stopped, the training goes on: cannot write %s: %s; it can be read up to there"
            % (self.path, error.strerror or error))
        try:
            if file is not None:
                file.close()
        except OSError:
            pass
