"""python -m zero3probe run: scenarios and run files on the installed DeepSpeed, as traces."""
import argparse
import os
from typing import List

from zero3probe import inputs, session, trace
from zero3probe.run import Run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="a scenario or a run file")
    parser.add_argument("--ranks", type=int, help="world size, instead of the file's")
    parser.add_argument("--seed", type=int, help="seed of a scenario's draws, instead of the file's")
    parser.add_argument("--out", metavar="TRACE", help="where the trace goes; default: stdout")
    add_timeout(parser)


def add_timeout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--timeout", type=float, default=60, metavar="SECONDS",
                        help="how long a run may take; then each rank says where it is (default: 60)")


def run(args: argparse.Namespace) -> int:
    """Returns the gravest exit code of the runs."""
    stdout = session.keep_output()
    if args.timeout <= 0 or (args.ranks is not None and args.ranks < 1):
        session.say("--timeout and --ranks are above 0")
        return 2
    try:
        runs = [run for path in args.files for run in inputs.load(path, args.ranks, args.seed)]
    except inputs.BadInput as error:
        session.say(str(error))
        return 2
    return session.exit_code(lambda: _run_all(runs, args, stdout))


def _run_all(runs: List[Run], args: argparse.Namespace, stdout: int) -> int:
    progress = os.isatty(session.stderr())
    out = trace.Output(args.out, stdout)
    if progress:
        session.say("importing DeepSpeed")
    running = session.Session(args.timeout)
    worst = 0
    for number, item in enumerate(runs, 1):
        if progress:
            session.say("run %d of %d: %s" % (number, len(runs), item.name))
        if item.partial:
            session.say("%s was cut: what stands before the cut is run" % item.name)
        worst = max(worst, running.run(item, out.write))
    out.close()
    return worst
