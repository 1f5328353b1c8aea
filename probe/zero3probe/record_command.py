"""python -m zero3probe record: runs a script as it is, and writes what it does as a run file."""
import argparse
import os
import runpy
import signal
import sys
import threading
from typing import Any, List, Optional

RAISED, BAD_INPUT, UNAVAILABLE = 1, 2, 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", default="run.jsonl", metavar="FILE",
                        help="the run file (default: run.jsonl; of several ranks, FILE.rank0 and so on)")
    parser.add_argument("--trace", metavar="FILE", help="also every event of the coordinator, as a trace")
    parser.add_argument("-m", dest="as_module", action="store_true", help="the script is a module's name")
    parser.add_argument("script", metavar="train.py")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS")


def run(args: argparse.Namespace) -> int:
    """Runs the script; its exit code is ours, and what it raises is raised."""
    from zero3probe.compat import Unavailable
    from zero3probe.record.writer import say
    if not args.as_module and not os.path.isfile(args.script):
        say("there is no file %s" % args.script)
        return BAD_INPUT
    try:
        recorder = _start(args)
    except Unavailable as error:
        say(str(error))
        return UNAVAILABLE
    return run_script(args.script, args.arguments, args.as_module, recorder)


def _start(args: argparse.Namespace) -> Any:
    """DeepSpeed imported, with what an old one needs without a GPU, and watched. Raises Unavailable."""
    import importlib
    from zero3probe import compat
    release = compat.installed_release()
    shims = compat.shims_for(release, compat.has_gpu())
    try:
        for shim in shims:
            if shim.before_import:
                shim.apply()
        importlib.import_module("deepspeed")
        for shim in shims:
            if not shim.before_import:
                shim.apply()
        importlib.import_module("deepspeed.runtime.zero.stage3")
    except Exception as error:
        raise compat.Unavailable("DeepSpeed %s does not import in %s: %s: %s"
                                 % (compat.release_text(release), sys.executable, type(error).__name__,
                                    error)) from error
    import torch
    from zero3probe.record.recorder import Recorder
    from zero3probe.record.watch import install
    tap = None
    if args.trace:
        from zero3probe import tap as taps
        tap = taps.Tap()
        taps.install(tap)
    recorder = Recorder(args.out, os.path.basename(args.script), tap, args.trace,
                        compat.release_text(release), torch.__version__.split("+")[0])
    install(recorder)
    return recorder


def run_script(script: str, arguments: List[str], as_module: bool, recorder: Any) -> int:
    """The script as __main__, with its own sys.argv. What ends it ends the recording."""
    sys.argv = [script] + [item for i, item in enumerate(arguments) if i > 0 or item != "--"]
    if not as_module:
        sys.path[0] = os.path.dirname(os.path.abspath(script))
    _close_on_sigterm(recorder)
    whole = False
    try:
        if as_module:
            runpy.run_module(script, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(script, run_name="__main__")
        whole = True
    except SystemExit as leaving:
        whole = True
        return _exit_code(leaving.code)
    finally:
        recorder.close(whole)
    return 0


def _exit_code(code: Any) -> int:
    """What Python makes of sys.exit's argument."""
    if code is None or isinstance(code, int):
        return int(code or 0)
    sys.stderr.write("%s\n" % code)
    return 1


def _close_on_sigterm(recorder: Any) -> None:
    """Launchers end ranks so: what was recorded is written before."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return

    def close(number: int, frame: Optional[Any]) -> None:
        recorder.close(False)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    signal.signal(signal.SIGTERM, close)
