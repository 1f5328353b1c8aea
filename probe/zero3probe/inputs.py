"""What a command is given: run files, or scenarios, which are unrolled into runs."""
from typing import List, Optional

from zero3probe.run import Run
from zero3probe.run_reader import BadRunFile, RunReader


class BadInput(Exception):
    """What is wrong with the input; the text names the file."""


def load(path: str, ranks: Optional[int], seed: Optional[int]) -> List[Run]:
    """The runs of a file. Raises BadInput.

    `ranks` and `seed` override a scenario's, and `ranks` that of a run file whose ranks all do the same.
    """
    try:
        with open(path, "rb") as start:
            is_run_file = b"zero3sim-run" in start.read(100)
        if is_run_file:
            with open(path, encoding="utf-8") as file:
                return [_with_ranks(run, path, ranks) for run in _runs_of(file, path)]
        return [_scenario(path, ranks, seed)]
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput("cannot read %s: %s" % (path, error)) from None


def _scenario(path: str, ranks: Optional[int], seed: Optional[int]) -> Run:
    try:
        from zero3probe import scenario
    except ImportError:
        raise BadInput("%s: PyYAML is not installed, and a scenario is YAML; `zero3sim unroll` makes a run file of one"
                       % path) from None
    try:
        return scenario.load(path, ranks, seed)
    except scenario.BadScenario as error:
        raise BadInput(str(error)) from None


def _runs_of(file: object, path: str) -> List[Run]:
    reader, runs = RunReader(file, path), []
    try:
        for run in iter(reader.read, None):
            runs.append(run)
    except BadRunFile as error:
        raise BadInput(str(error)) from None
    if not runs:
        raise BadInput("%s: no runs in it" % path)
    return runs


def _with_ranks(run: Run, path: str, ranks: Optional[int]) -> Run:
    if ranks is None or ranks == run.ranks:
        return run
    if any(program is not run.programs[0] for program in run.programs):
        raise BadInput("%s: its ranks do different things, so that it runs on %d ranks and no other number"
                       % (path, run.ranks))
    run.ranks, run.programs = ranks, [run.programs[0]] * ranks
    return run
