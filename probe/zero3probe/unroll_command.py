"""python -m zero3probe unroll: a scenario as a run file, the same bytes as zero3sim's. Needs no torch, no DeepSpeed."""
import argparse
import io
import sys

from zero3probe import inputs
from zero3probe.run_writer import write_run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a scenario or a run file")
    parser.add_argument("--ranks", type=int, help="world size, instead of the file's")
    parser.add_argument("--seed", type=int, help="seed of a scenario's draws, instead of the file's")
    parser.add_argument("-o", "--output", metavar="FILE", help="where the run file goes; default: stdout")


def run(args: argparse.Namespace) -> int:
    """Returns 0, or 2 for bad input."""
    text = io.StringIO()
    try:
        for item in inputs.load(args.file, args.ranks, args.seed):
            write_run(item, text)
        data = text.getvalue().encode("utf-8")
        if args.output is None:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        else:
            with open(args.output, "wb") as out:
                out.write(data)
    except inputs.BadInput as error:
        print(error, file=sys.stderr)
        return 2
    except OSError as error:
        print("cannot write %s: %s" % (args.output or "standard output", error.strerror), file=sys.stderr)
        return 2
    return 0
