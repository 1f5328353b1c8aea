"""Settles repeats, branches and draws of a program for each rank and one seed.

A draw is a function of the seed, its place in the program, the iterations around it and, if it is per rank, the rank:
the same numbers as zero3sim's (sim/scenario/unroll.cpp).
"""
from typing import Any, Dict, List, Optional, Tuple

from zero3probe.run import Call, Op, Run, Statement
from zero3probe.scenario.model import Model, Plan, PlanItem
from zero3probe.scenario.program import Step, StepOp
from zero3probe.scenario.yaml_file import YamlFile

MAX_STATEMENTS = 1000000
MAX_CALLS = 10000000
MAX_VISITS = 10000000  # steps looked at, those that come to nothing among them
MAX_STATEMENTS_OF_ALL_RANKS = 10000000
_MASK = (1 << 64) - 1


def _mix(value: int) -> int:
    """SplitMix64: a fixed, well-mixed function of its argument."""
    value = (value + 0x9e3779b97f4a7c15) & _MASK
    value = ((value ^ (value >> 30)) * 0xbf58476d1ce4e5b9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94d049bb133111eb) & _MASK
    return value ^ (value >> 31)


def _below(place: int, index: int) -> int:
    """Where in the program something stands, repeats counted out, and the seed: folded into one number."""
    return _mix(place ^ _mix(index))


def unroll(run: Run, steps: List[Step], model: Model, file: YamlFile) -> None:
    """Fills the plans and programs of a run, whose ranks and seed are set."""
    plans = _Plans(run)
    statements = 0
    for rank in range(run.ranks):
        unroller = _Unroller(model, rank, run.ranks, file, plans)
        unroller.add_steps(steps, _mix(run.seed), 0)
        run.programs.append(unroller.program)
        statements += len(unroller.program)
        alike = not unroller.asked_rank
        if statements * (run.ranks if alike else 1) > MAX_STATEMENTS_OF_ALL_RANKS:
            file.fail(None, "more than %d steps on %d ranks" % (MAX_STATEMENTS_OF_ALL_RANKS, run.ranks))
        if alike:  # what one rank does, each does
            run.programs = [unroller.program] * run.ranks
            return


class _Plans:
    """The run's plans, each once, in order of appearance."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._known: Dict[Any, int] = {}

    def number(self, calls: List[Call]) -> int:
        key = _key(calls)
        if key not in self._known:
            self._known[key] = len(self._run.plans)
            self._run.plans.append(calls)
        return self._known[key]


def _key(calls: List[Call]) -> Tuple[Any, ...]:
    return tuple((call.module, call.checkpoint, call.detach, call.discard, _key(call.calls)) for call in calls)


class _Unroller:
    """The statements of one rank; `asked_rank`: something in them depends on it."""

    def __init__(self, model: Model, rank: int, ranks: int, file: YamlFile, plans: _Plans) -> None:
        self.program: List[Statement] = []
        self.asked_rank = False
        self._model = model
        self._rank = rank
        self._ranks = ranks
        self._file = file
        self._plans = plans
        self._calls = 0
        self._visits = 0

    def add_steps(self, steps: List[Step], place: int, iteration: int) -> None:
        for i, step in enumerate(steps):
            self._add_step(step, _below(place, i), iteration)

    def _add_step(self, step: Step, place: int, iteration: int) -> None:
        self._visits += 1
        if self._visits > MAX_VISITS:
            self._file.fail(step.place, "the program repeats too much")
        if step.kind == "ops":
            self._add_statement(step, step.ops, step.text, place)
        elif step.kind == "block":
            self._add_statement(step, step.ops, step.text, place)
            self.add_steps(step.branches[0][1], place, iteration)
            self._add_statement(step, step.closing_ops, "end of " + step.text, place)
        elif step.kind == "repeat":
            for i in range(step.times if step.branches[0][1] else 0):
                self.add_steps(step.branches[0][1], _below(place, i), i + 1)
        elif step.kind == "when":
            self.add_steps(step.branches[0 if self._holds(step, iteration) else 1][1], place, iteration)
        else:
            self.add_steps(self._chosen(step, place), place, iteration)

    def _holds(self, step: Step, iteration: int) -> bool:
        self.asked_rank = self.asked_rank or bool(step.ranks)
        return ((not step.ranks or self._rank in step.ranks)
                and (not step.iterations or iteration in step.iterations))

    def _number(self, place: int, per_rank: bool) -> int:
        self.asked_rank = self.asked_rank or per_rank
        return _below(place, self._rank + 1) if per_rank else _mix(place)

    def _chosen(self, step: Step, place: int) -> List[Step]:
        at = self._number(place, step.per_rank) % sum(weight for weight, _ in step.branches)
        for weight, steps in step.branches:
            if at < weight:
                return steps
            at -= weight
        return step.branches[-1][1]

    def _add_statement(self, step: Step, ops: List[StepOp], text: str, place: int) -> None:
        if len(self.program) >= MAX_STATEMENTS:
            self._file.fail(step.place, "the program has more than %d steps, repeats counted out" % MAX_STATEMENTS)
        statement = Statement(text)
        for i, op in enumerate(ops):
            settled = Op(op.op, op.engine, self._settle_plan(op.plan, _below(place, i), step), op.grad, op.direct,
                         op.overflow, op.params, op.modifier_rank, op.module)
            statement.ops.append(settled)
            if op.modifier_rank is not None and op.modifier_rank >= self._ranks:
                self._file.fail(step.place, "modifier_rank %d of %d rank(s)" % (op.modifier_rank, self._ranks))
        self.program.append(statement)

    def _settle_plan(self, plan: Optional[Plan], place: int, step: Step) -> Optional[int]:
        return None if plan is None else self._plans.number(self._settle(plan, place, step))

    def _settle(self, plan: Plan, place: int, step: Step) -> List[Call]:
        calls: List[Call] = []
        for i, item in enumerate(plan):
            own_place = _below(place, i)
            if item.module >= 0:
                calls.append(self._call(item, item.module, own_place, step))
                continue
            for module in self._drawn(item, own_place):
                calls.append(self._call(item, module, _below(own_place, module), step))
        return calls

    def _call(self, item: PlanItem, module: int, place: int, step: Step) -> Call:
        self._calls += 1
        if self._calls > MAX_CALLS:
            self._file.fail(step.place, "the program calls more than %d modules" % MAX_CALLS)
        inner = item.children
        if inner is None:
            inner = self._model.own_forward(module)
        return Call(module, self._settle(inner, place, step), item.checkpoint, item.detach, item.discard)

    def _drawn(self, item: PlanItem, place: int) -> List[int]:
        """The first so many of a shuffle, in the order that they stand in."""
        order = list(item.candidates)
        for i in range(item.drawn):
            other = i + self._number(_below(place, i), item.per_rank) % (len(order) - i)
            order[i], order[other] = order[other], order[i]
        kept = order[:item.drawn]
        return [candidate for candidate in item.candidates if candidate in kept]
