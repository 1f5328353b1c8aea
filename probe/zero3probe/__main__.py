"""The command line: python -m zero3probe COMMAND. Exit codes are zero3sim's."""
import argparse
import os
import signal
import sys
from typing import Callable, List, Optional, Tuple

COMPLETED, RAISED, BAD_INPUT, HANG, UNAVAILABLE = 0, 1, 2, 3, 5

# Each command: its name, the line of --help, and its module, with add_arguments(parser) and run(args).
COMMANDS: Tuple[Tuple[str, str, str], ...] = (
    ("run", "run scenarios or run files on the installed DeepSpeed", "zero3probe.run_command"),
    ("serve", "run what zero3sim sends on stdin", "zero3probe.serve_command"),
    ("unroll", "write the run file of a scenario", "zero3probe.unroll_command"),
    ("record", "record the training of a script", "zero3probe.record_command"),
    ("merge", "make one run file of those that several ranks recorded", "zero3probe.merge_command"),
)


def main(arguments: Optional[List[str]] = None) -> int:
    """Runs one command; returns the exit code."""
    import importlib
    import importlib.util
    parser = argparse.ArgumentParser(prog="python -m zero3probe",
                                     description="Runs and records real DeepSpeed for zero3sim.",
                                     epilog="Exit codes: 0 ran to the end, 1 raised, 2 bad input, 3 hang, "
                                            "5 DeepSpeed is not available.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text, home in COMMANDS:
        if importlib.util.find_spec(home) is None:
            continue
        module = importlib.import_module(home)
        command = commands.add_parser(name, help=text, description=text)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    args = parser.parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = args.run
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ranks end with it
    try:
        return run(args)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # torch's and DeepSpeed's own threads and exit handlers have nothing to add
