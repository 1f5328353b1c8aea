"""python -m zero3probe serve: zero3sim sends run files on stdin and reads a trace for each on stdout."""
import argparse
import platform

from zero3probe import session, trace
from zero3probe.compat import release_text
from zero3probe.run_command import add_timeout
from zero3probe.run_reader import BadRunFile, RunReader

FORMAT = "zero3sim-probe"
VERSION = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_timeout(parser)


def run(args: argparse.Namespace) -> int:
    """Serves until stdin is closed."""
    stdout = session.keep_output()
    return session.exit_code(lambda: _serve(args.timeout, stdout))


def _serve(timeout: float, stdout: int) -> int:
    out = trace.Output(None, stdout)
    running = session.Session(timeout)
    out.write(trace.line({"format": FORMAT, "version": VERSION,
                          "deepspeed": release_text(running.installed.release),
                          "torch": running.installed.torch, "python": platform.python_version()}))
    reader = RunReader(open(0, encoding="utf-8", errors="replace", closefd=False))
    while _serve_one(running, reader, out):
        pass
    return 0


def _serve_one(running: session.Session, reader: RunReader, out: trace.Output) -> bool:
    """Answers the next run; False at the end of stdin."""
    try:
        item = reader.read()
    except BadRunFile as error:
        reader.skip_to_end()
        refusal = trace.line({"event": "refused", "text": str(error)})
        out.write(running.header("", 1, 0) + refusal + trace.end())
        return True
    if item is None:
        return False
    running.run(item, out.write)
    return True
