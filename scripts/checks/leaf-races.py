"""Holds what zero3sim races says of a leaf module against the installed DeepSpeed.

usage: PYTHONPATH=probe PY scripts/checks/leaf-races.py ZERO3SIM RELEASE [--random N]

For each case (leaf modules of 1, 2 and 5 params; 1 and 2 ranks; fetched or prefetched) the shortest
interleaving of every outcome that the model names is taken by real threads, step by step; so are N random
ones, drawn here. Exception, text and whatever is left behind must be the model's. Prints a line for each case
and what differs. Exit code 1: something does.
"""
import argparse
import functools
import io
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from zero3probe import compat
from zero3probe.installed import Installed, import_deepspeed
from zero3probe.run import Run
from zero3probe.run_reader import read_runs

_MODEL = """zero3sim: 1
model:
  children:
    before: Linear(8, 8, bias=False)
    moe:
      type: MoeBlock
      leaf: true
      outputs: 2
      params: {%s}
deepspeed_config:
  zero_optimization: {stage: 3, stage3_param_persistence_threshold: 0}
program: [train]
"""
_LIMIT = 240  # seconds for all races of a case


class Case(NamedTuple):
    params: int
    ranks: int
    prefetched: bool

    def __str__(self) -> str:
        return "%d params, %d ranks%s" % (self.params, self.ranks, ", prefetched" if self.prefetched else "")


class Job(NamedTuple):
    """One race: the model's steps, as in JSON; or steps drawn with the seed."""
    steps: Optional[List[Dict[str, Any]]]
    seed: int = 0


CASES = [Case(params, ranks, prefetched)
         for params in (1, 2, 5) for ranks in (1, 2) for prefetched in (False, True)]


class Model:
    """zero3sim's word on a case."""

    def __init__(self, zero3sim: str, release: str, case: Case, folder: str) -> None:
        params = ", ".join("p%d: [8, %d]" % (i, 8 + i % 2) for i in range(case.params))
        self._path = os.path.join(folder, "model.yaml")
        with open(self._path, "w") as stream:
            stream.write(_MODEL % params)
        self._zero3sim = zero3sim
        self._words = ["races", self._path, "--deepspeed", release, "--ranks", str(case.ranks), "--params",
                       str(case.params), "--format", "json"] + (["--prefetched"] if case.prefetched else [])
        lines = self._ask(["unroll", self._path, "--ranks", str(case.ranks)])
        self.run: Run = next(read_runs(io.StringIO(lines), self._path))

    def explored(self) -> Dict[str, Any]:
        return json.loads(self._ask(self._words))

    def told(self, order: List[int]) -> Dict[str, Any]:
        """The outcome of one order of threads, counted from 0."""
        words = self._words + ["--order", ",".join(str(number + 1) for number in order)]
        return json.loads(self._ask(words))["outcomes"][0]

    def _ask(self, words: List[str]) -> str:
        done = subprocess.run([self._zero3sim] + words, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              universal_newlines=True)
        if done.returncode not in (0, 1):
            raise SystemExit("zero3sim %s: %s" % (" ".join(words), done.stderr))
        return done.stdout


def canonical(text: str) -> str:
    """Values of tensors as "...", as the model shows them; an empty tensor as it is."""
    start = text.find("tensor([")
    if start < 0 or text.startswith("tensor([])", start) or text.startswith("tensor([],", start):
        return text
    start += len("tensor(")
    depth = len(text[start:]) - len(text[start:].lstrip("["))
    return text[:start] + "[" * depth + "..." + text[text.index("]" * depth, start):]


def on_rank(run: Run, rank: int, installed: Installed, folder: str, case: Case,
            jobs: List[Job]) -> List[Dict[str, Any]]:
    """The races of one rank, one after the other, on one engine. In a forked process."""
    import torch
    import torch.distributed as dist
    import leaf_turns
    from zero3probe.engine_calls import Engines
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(run.ranks), LOCAL_RANK=str(rank),
                      LOCAL_SIZE=str(run.ranks))
    dist.init_process_group("gloo", store=dist.FileStore(os.path.join(folder, "store"), run.ranks), rank=rank,
                            world_size=run.ranks)
    from deepspeed.runtime.zero import partition_parameters
    leaf_turns.share_statuses(torch.nn.Parameter)
    leaf_turns.share_handles(partition_parameters)
    engines = Engines(run, rank, installed, folder)
    module = next(m for m, spec in zip(engines.model.modules, run.modules) if spec.leaf)
    names = {id(param): name for name, param in engines.model.param_names}
    leaf = leaf_turns.Leaf(engines.engines[0].optimizer.parameter_offload, module, names)
    answers: List[Dict[str, Any]] = []
    for job in jobs:
        answers.append(take(leaf_turns.Race(leaf, 2, case.prefetched), job))
        if "differs" in answers[-1]:
            break  # ranks may have come apart
    return answers


def take(race: Any, job: Job) -> Dict[str, Any]:
    """One race: its order, and how it ended; or "differs", where the model's next step is not DeepSpeed's."""
    taken: List[int] = []
    draws = random.Random(job.seed)
    while not race.over() if job.steps is None else len(taken) < len(job.steps):
        if job.steps is None:
            number = draws.choice([i for i, thread in enumerate(race.threads) if thread.runnable()])
        else:
            step = job.steps[len(taken)]
            number = step["thread"] - 1
            thread = race.threads[number]
            if thread.pending != (step["action"], step.get("param")) or not thread.runnable():
                return {"differs": "step %d, thread %d: the model takes %s of %s, DeepSpeed %s"
                        % (len(taken) + 1, number + 1, step["action"], step.get("param"), thread.pending)}
        race.step(number)
        taken.append(number)
    failed = [thread for thread in race.threads if thread.error is not None]
    if failed:
        return {"order": taken, "exception": type(failed[0].error).__name__,
                "text": canonical(failed[0].text)}
    return {"order": taken, "outcome": race.end() if race.over() else "goes on"}


def fork(work: Callable[[], List[Dict[str, Any]]]) -> Tuple[int, int]:
    """Runs work() in a process of its own, which stays: other ranks may still talk to it.

    Its id, and the pipe with its answer."""
    answer_in, answer_out = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        try:
            answers = work()
        except BaseException as error:
            answers = [{"differs": "%s: %s" % (type(error).__name__, error)}]
        with os.fdopen(answer_out, "w") as stream:
            json.dump(answers, stream)
        signal.pause()
    os.close(answer_out)
    return pid, answer_in


def on_all_ranks(run: Run, installed: Installed, case: Case, jobs: List[Job]) -> List[Dict[str, Any]]:
    """Every race's end, as far as they went: "differs" if ranks do not say the same, or take too long."""
    with tempfile.TemporaryDirectory(prefix="leaf-races-") as folder:
        children = [fork(functools.partial(on_rank, run, rank, installed, folder, case, jobs))
                    for rank in range(run.ranks)]
        answers: List[List[Dict[str, Any]]] = []
        for _, answer in children:
            data = b""
            while select.select([answer], [], [], _LIMIT)[0]:
                piece = os.read(answer, 1 << 16)
                if not piece:
                    break
                data += piece
            answers.append(json.loads(data.decode()) if data
                           else [{"differs": "no answer in %d s" % _LIMIT}])
        for pid, answer in children:
            os.close(answer)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    for number, of_ranks in enumerate(zip(*answers)):
        if any(other != of_ranks[0] for other in of_ranks):
            return answers[0][:number] + [{"differs": "ranks end in several ways: %s" % (of_ranks, )}]
    return answers[0]


def difference(modelled: Dict[str, Any], real: Dict[str, Any]) -> str:
    """"" if DeepSpeed ended as the model says."""
    if "differs" in real:
        return real["differs"]
    keys = ("exception", "text") if "exception" in modelled else ("outcome",)
    wrong = ["the model's %s is %r, DeepSpeed's %r" % (key, modelled[key], real.get(key, real))
             for key in keys if modelled[key] != real.get(key)]
    return "; ".join(wrong)


def check(case: Case, model: Model, installed: Installed, count: int) -> List[str]:
    """What differs in a case. Prints how much was held against the model."""
    explored = model.explored()["outcomes"]
    jobs = [Job(outcome["steps"]) for outcome in explored] + [Job(None, seed) for seed in range(count)]
    ends = on_all_ranks(model.run, installed, case, jobs)
    wrong = []
    for number, real in enumerate(ends):
        if number < len(explored):
            what, modelled = explored[number]["outcome"], explored[number]
        else:
            what = "random order %d" % (number - len(explored))
            modelled = {} if "differs" in real else model.told(real["order"])
        differs = difference(modelled, real)
        if differs:
            wrong.append("%s: %s: %s" % (case, what, differs))
    if len(ends) < len(jobs):
        wrong.append("%s: %d races were not run after that" % (case, len(jobs) - len(ends)))
    raising = sum("exception" in outcome for outcome in explored)
    print("DeepSpeed %s, %s: %d ways to fail, %d other ends, %d random orders: %s"
          % (compat.release_text(installed.release), case, raising, len(explored) - raising, count,
             "as modelled" if not wrong else "; ".join(wrong)), flush=True)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("zero3sim")
    parser.add_argument("release")
    parser.add_argument("--random", type=int, default=10)
    arguments = parser.parse_args()
    installed = import_deepspeed()
    wrong: List[str] = []
    for case in CASES:
        with tempfile.TemporaryDirectory(prefix="leaf-races-") as folder:
            model = Model(arguments.zero3sim, arguments.release, case, folder)
            wrong += check(case, model, installed, arguments.random)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
