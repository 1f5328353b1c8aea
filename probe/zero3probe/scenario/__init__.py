"""Reads zero3sim's scenario files (docs/scenario-format.md) into runs, with the same draws as zero3sim.

What zero3sim refuses is refused here, at the same line; `expect` and `fixes` are passed over. Needs PyYAML.
"""
import os
import sys
from typing import List, Optional

from zero3probe.run import Engine, Run
from zero3probe.scenario.config import read_config
from zero3probe.scenario.model import Model
from zero3probe.scenario.model_reader import read_model
from zero3probe.scenario.program import NamedEngine, read_program
from zero3probe.scenario.unroll import unroll
from zero3probe.scenario.yaml_file import MAX_FILE_BYTES, BadScenario, Node, YamlFile

__all__ = ["BadScenario", "load"]

VERSION = 1
MAX_RANKS = 65536
MAX_ENGINES = 64
_KEYS = ("zero3sim", "name", "title", "description", "source", "ranks", "seed", "model", "engines",
         "deepspeed_config", "input_requires_grad", "plans", "program", "expect", "fixes")


def load(path: str, ranks: Optional[int] = None, seed: Optional[int] = None) -> Run:
    """A scenario as a run. `ranks` and `seed` override the file's. Raises BadScenario, OSError."""
    with open(path, "rb") as stream:
        data = stream.read(MAX_FILE_BYTES + 1)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 20000))  # modules call each other up to 500 deep
    try:
        return _read(YamlFile(path, data), ranks, seed)
    finally:
        sys.setrecursionlimit(limit)


def _read(file: YamlFile, ranks: Optional[int], seed: Optional[int]) -> Run:
    root = file.map(file.root, "a scenario")
    _check_version(file, root)
    file.check_keys(root, _KEYS, "a scenario")
    run = Run(name=_text_or(file, root, "name", os.path.splitext(os.path.basename(file.path))[0]))
    for key in ("title", "description", "source"):
        _text_or(file, root, key, "")
    _read_ranks_and_seed(file, root, run)
    plans = root.find("plans")
    if plans is not None:
        file.map(plans, "plans")
    model = read_model(file, _needed(file, root, "model"), plans)
    engines = _read_engines(file, root.find("engines"), model)
    run.deepspeed_config = read_config(file, root.find("deepspeed_config"))
    grad = root.find("input_requires_grad")
    run.input_requires_grad = grad is not None and file.boolean(grad, "input_requires_grad")
    steps = read_program(file, _needed(file, root, "program"), model, engines, plans, run.ranks)
    run.modules = model.modules
    run.engines = [engine.setup for engine in engines]
    run.ranks = run.ranks if ranks is None else ranks
    run.seed = run.seed if seed is None else seed
    if not 1 <= run.ranks <= MAX_RANKS:
        file.fail(None, "%d ranks" % run.ranks)
    unroll(run, steps, model, file)
    return run


def _check_version(file: YamlFile, root: Node) -> None:
    """First of all: a newer file may hold anything."""
    node = root.find("zero3sim")
    if node is None:
        file.fail(root.place, "this is no scenario: the key zero3sim is missing")
        return
    number = file.count(node, "the format's version")
    if number > VERSION:
        file.fail(node.place, "format %d is newer than this program, which reads format %d" % (number, VERSION))
    if number < 1:
        file.fail(node.place, "there is no format 0")


def _read_ranks_and_seed(file: YamlFile, root: Node, run: Run) -> None:
    ranks, seed = root.find("ranks"), root.find("seed")
    if ranks is not None:
        run.ranks = file.count(ranks, "ranks", MAX_RANKS)
        if run.ranks < 1:
            file.fail(ranks.place, "ranks is 0")
    if seed is not None:
        run.seed = file.count(seed, "seed")


def _needed(file: YamlFile, root: Node, key: str) -> Node:
    value = root.find(key)
    return value if value is not None else file.fail(root.place, "the scenario has no " + key)


def _text_or(file: YamlFile, node: Node, key: str, otherwise: str) -> str:
    value = node.find(key)
    return otherwise if value is None else file.text(value, key)


def _read_engines(file: YamlFile, node: Optional[Node], model: Model) -> List[NamedEngine]:
    if node is None:
        return [NamedEngine("engine", Engine())]
    engines: List[NamedEngine] = []
    for item in file.list(node, "engines"):
        file.check_keys(file.map(item, "an engine"), ("name", "root", "optimizer"), "an engine")
        engine = NamedEngine(_text_or(file, item, "name", str(len(engines))), Engine())
        if any(other.name == engine.name for other in engines):
            file.fail(item.place, "a second engine '%s'" % engine.name)
        root, optimizer = item.find("root"), item.find("optimizer")
        if root is not None:
            engine.setup.root = _read_root(file, root, model)
        if optimizer is not None:
            engine.setup.optimizer = file.boolean(optimizer, "optimizer")
        engines.append(engine)
    if not engines:
        file.fail(node.place, "engines is empty")
    if len(engines) > MAX_ENGINES:
        file.fail(node.place, "more than %d engines" % MAX_ENGINES)
    return engines


def _read_root(file: YamlFile, node: Node, model: Model) -> int:
    path = file.text(node, "root")
    module = 0 if path == "root" else model.find(0, path)
    return module if module >= 0 else file.fail(node.place, "there is no module '%s'" % path)
