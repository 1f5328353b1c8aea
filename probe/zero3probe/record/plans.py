"""The calls of one forward as a tree, made of its tape, and the plans that they become. Needs no torch.

A Frame is one module call, a Region what one checkpoint() runs. Equal plans are one plan: a step like all before
it costs one line, and its tree is not made.
"""
from typing import Any, Callable, Dict, List, Optional, Tuple

from zero3probe.record.tape import RAISED, Tape, is_inputs, tensors_of
from zero3probe.run import Call, Flow, ParamRef, Tensors
from zero3probe.run_writer import call_item, dumps, plan_item

_NONE = Tensors(0, 0)
_MOST_TAPES = 1000  # that are kept: a mixture of experts may make a new one every step


class Part:
    """Calls one after the other: those of a module, or of a checkpointed region."""
    __slots__ = ("module", "calls", "outputs", "stop_at")

    def __init__(self, module: int) -> None:
        self.module = module  # a region has that of the module around it
        self.calls: List[Any] = []  # Frame, Region, or ParamRef of a weight that is read
        self.outputs = _NONE
        self.stop_at: Optional[int] = None  # a recomputation stopped behind so many calls

    def parts(self) -> List["Part"]:
        """The calls without the weights that are read."""
        return [item for item in self.calls if isinstance(item, Part)]

    def reads(self, param: ParamRef) -> None:
        """The module reads a parameter that is not its own."""
        if param not in self.calls:
            self.calls.append(param)

    def take(self, given: bool, tensors: Tensors) -> None:
        """What it was given, or what it returned."""
        self.outputs = tensors

    def call(self) -> Call:
        """As a plan has it."""
        raise NotImplementedError

    def _inner(self) -> List[Call]:
        calls, left = [], self.stop_at
        for item in self.calls:
            if isinstance(item, Part):
                if left == 0:
                    calls.append(Call(stop=True))
                left = None if left is None else left - 1
            calls.append(item.call() if isinstance(item, Part) else Call(read=item))
        return calls + [Call(stop=True)] if left == 0 else calls


class Frame(Part):
    """One module call: its module's index, what it called, and its tensors.

    `first`: in a reentrant region, the tensors of the pass without grad, once the recomputation's are there.
    """
    __slots__ = ("inputs", "returned", "first")

    def __init__(self, module: int) -> None:
        super().__init__(module)
        self.inputs = _NONE
        self.returned = False
        self.first: Optional[Flow] = None

    def take(self, given: bool, tensors: Tensors) -> None:
        if given:
            self.inputs = tensors
            return
        self.outputs, self.returned = tensors, True

    def call(self) -> Call:
        return Call(self.module, self._inner(), flow=self.flow())

    def flow(self) -> Flow:
        first = self.first or Flow(_NONE, _NONE)
        return Flow(self.inputs, self.outputs,
                    (first.inputs.requiring_grad, first.inputs.contained_requiring_grad),
                    (first.outputs.requiring_grad, first.outputs.contained_requiring_grad))

    def recompute(self, again: "Frame") -> None:
        """Takes the tensors that the call had when it ran again, with grad."""
        self.first = Flow(self.inputs, self.outputs)
        self.inputs, self.outputs = again.inputs, again.outputs
        self.calls = merged(self.calls, again.calls)


class Region(Part):
    """What a checkpoint() runs; `kind` as in the run file."""
    __slots__ = ("kind", "filled")

    def __init__(self, module: int, kind: str) -> None:
        super().__init__(module)
        self.kind = kind
        self.filled = False  # a reentrant one has the tensors of its recomputation

    def call(self) -> Call:
        if self.kind == "reentrant" and not self.filled:
            _first_alone(self)
        flow = Flow(outputs=self.outputs) if self.kind == "reentrant" else Flow()
        return Call(calls=self._inner(), region=self.kind, flow=flow)

    def recompute(self, again: "Region") -> None:
        """The region ran again, completely."""
        if self.kind != "reentrant":
            self.kind = "whole-recompute"  # it did not stop
            return
        self.filled = True
        self.calls = merged(self.calls, again.calls)

    def stopped(self, again: "Region") -> None:
        """Its recomputation ended early, in the last call of `again` that did not return."""
        part: Part = self
        other: Part = again
        while True:
            below = other.parts()
            running = bool(below) and isinstance(below[-1], Frame) and not below[-1].returned
            if not running or len(part.parts()) < len(below):
                part.stop_at = len(below)
                return
            part, other = part.parts()[len(below) - 1], below[-1]


def _first_alone(part: Part) -> None:
    """No recomputation was seen: the tensors below are those of the pass without grad."""
    for item in part.parts():
        if isinstance(item, Frame) and item.first is None:
            item.first = Flow(item.inputs, item.outputs)
        _first_alone(item)


def merged(first: List[Any], again: List[Any]) -> List[Any]:
    """The calls of a region's two passes: as in the first, with the tensors of the second. Reads are first's."""
    later = [item for item in again if isinstance(item, Part)]
    earlier = [item for item in first if isinstance(item, Part)]
    if [(type(item), item.module) for item in earlier] != [(type(item), item.module) for item in later]:
        return later
    for number, item in enumerate(earlier):
        if isinstance(item, Frame):
            item.recompute(later[number])
        else:
            first[next(i for i, each in enumerate(first) if each is item)] = later[number]
    return first


def tree_of(tape: Tape, top: Part) -> Part:
    """The calls of a tape below `top`. What is in a reentrant region counts as reached, until it runs again."""
    parts, first = [top], 0
    regions: List[Region] = []
    for code in tape.codes:
        if isinstance(code, tuple):
            parts[-1].reads(code)
        elif code is RAISED:
            parts.pop()
        elif isinstance(code, str):
            regions.append(Region(parts[-1].module, code))
            parts.append(_added(parts[-1], regions[-1]))
        elif code >= 0:
            parts.append(_added(parts[-1], Frame(code)))
        else:
            part = parts[-1] if is_inputs(code) else parts.pop()
            first_pass = any(isinstance(each, Region) and each.kind == "reentrant" for each in parts[1:])
            tensors, first = _tensors(code, first, None if first_pass else tape.reached)
            part.take(is_inputs(code), tensors)
    for region, recomputed in zip(regions, tape.regions):
        for again in recomputed.passes:
            part = tree_of(again.tape, Region(region.module, region.kind))
            region.stopped(part) if again.stopped else region.recompute(part)
    return top


def _added(around: Part, part: Part) -> Part:
    around.calls.append(part)
    return part


def _tensors(code: int, first: int, reached: Optional[Tuple[bool, ...]]) -> Tuple[Tensors, int]:
    """What a code says, its nodes from `first` on; and where the next one's begin."""
    alone, contained = tensors_of(code)
    middle, end = first + alone, first + alone + contained
    if reached is None:
        return Tensors(alone, alone, contained, contained), end
    return Tensors(alone, sum(reached[first:middle]), contained, sum(reached[middle:end])), end


class Plans:
    """Numbers plans, each written once before its first use."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._numbers: Dict[Tuple[str, str], int] = {}
        self._tapes: Dict[Any, int] = {}

    def of_tape(self, tape: Tape, direct: bool) -> int:
        """The plan of a forward; `direct`: its modules were called without the root."""
        key = (direct, tape.signature())
        number = self._tapes.get(key)
        if number is None:
            if len(self._tapes) == _MOST_TAPES:
                self._tapes.clear()
            number = self._tapes[key] = self._new(tape, direct)
        return number

    def _new(self, tape: Tape, direct: bool) -> int:
        calls = [part.call() for part in tree_of(tape, Part(-1)).parts()]
        if direct or not calls:
            return self.number(calls, Flow())
        return self.number(calls[-1].calls, calls[-1].flow or Flow())

    def number(self, calls: List[Call], root: Flow) -> int:
        items = [call_item(call) for call in calls]
        item = plan_item(0, items, root)
        key = (dumps(item["root"]), dumps(items))
        if key not in self._numbers:
            self._numbers[key] = item["plan"] = len(self._numbers)
            self._write(dumps(item))
        return self._numbers[key]

    def __len__(self) -> int:
        return len(self._numbers)
