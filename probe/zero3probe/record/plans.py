"""The calls of one forward while they are being made, and the plans that they become. Needs no torch.

A Frame is one module call, a Region what one checkpoint() runs. They keep the autograd nodes of their tensors
until backward says which of them it reaches; any longer would hold the graph. Equal plans are one plan: a step
like all before it costs one line.
"""
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

from zero3probe.run import Call, Flow, ParamRef, Tensors
from zero3probe.run_writer import call_item, dumps, plan_item

Node = Any  # of autograd's graph; None: a leaf


class Ends:
    """The tensors that require grad on one side of a call: alone or in tuples, and in lists and dicts."""
    __slots__ = ("plain", "contained", "settled")

    def __init__(self) -> None:
        self.plain: List[Node] = []
        self.contained: List[Node] = []
        self.settled: Optional[Tensors] = None

    def settle(self, reached: Optional[Set[Node]]) -> None:
        """Counts and lets the nodes go. `reached`: those that backward comes to; None: nobody knows, so all."""
        if self.settled is not None:
            return

        def count(nodes: Sequence[Node]) -> int:
            if reached is None:
                return len(nodes)
            return sum(node is None or node in reached for node in nodes)
        self.settled = Tensors(len(self.plain), count(self.plain), len(self.contained), count(self.contained))
        self.plain, self.contained = [], []

    def tensors(self) -> Tensors:
        self.settle(None)
        assert self.settled is not None
        return self.settled


class Part:
    """Calls one after the other: those of a module, or of a checkpointed region."""
    __slots__ = ("module", "calls", "outputs", "stop_at")

    def __init__(self, module: int) -> None:
        self.module = module  # a region has that of the module around it
        self.calls: List[Any] = []  # Frame, Region, or ParamRef of a weight that is read
        self.outputs = Ends()
        self.stop_at: Optional[int] = None  # a recomputation stopped behind so many calls

    def parts(self) -> List["Part"]:
        """The calls without the weights that are read."""
        return [item for item in self.calls if isinstance(item, Part)]

    def reads(self, param: ParamRef) -> None:
        """The module reads a parameter that is not its own."""
        if param not in self.calls:
            self.calls.append(param)

    def call(self) -> Call:
        """As a plan has it. What is not settled counts as reached."""
        raise NotImplementedError

    def settle(self, reached: Optional[Set[Node]]) -> None:
        """Of all that is below, but for regions that know better."""
        self.outputs.settle(reached)
        for item in self.parts():
            item.settle(reached)

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
        self.inputs = Ends()
        self.returned = False
        self.first: Optional[Flow] = None

    def settle(self, reached: Optional[Set[Node]]) -> None:
        self.inputs.settle(reached)
        super().settle(reached)

    def call(self) -> Call:
        return Call(self.module, self._inner(), flow=self.flow())

    def flow(self) -> Flow:
        first = self.first or Flow(Tensors(0, 0), Tensors(0, 0))
        return Flow(self.inputs.tensors(), self.outputs.tensors(),
                    (first.inputs.requiring_grad, first.inputs.contained_requiring_grad),
                    (first.outputs.requiring_grad, first.outputs.contained_requiring_grad))

    def recompute(self, again: "Frame") -> None:
        """Takes the tensors that the call had when it ran again, with grad."""
        self.first = Flow(self.inputs.tensors(), self.outputs.tensors())
        self.inputs, self.outputs = again.inputs, again.outputs
        self.calls = merged(self.calls, again.calls)


class Region(Part):
    """What a checkpoint() runs; `kind` as in the run file."""
    __slots__ = ("kind", "filled")

    def __init__(self, module: int, kind: str) -> None:
        super().__init__(module)
        self.kind = kind
        self.filled = False  # a reentrant one has the tensors of its recomputation

    def settle(self, reached: Optional[Set[Node]]) -> None:
        """The backward around a reentrant region ends at it: its own comes to what is in it."""
        self.outputs.settle(reached)
        for item in self.parts() if self.kind != "reentrant" else ():
            item.settle(reached)

    def call(self) -> Call:
        if self.kind == "reentrant" and not self.filled:
            _first_alone(self)
        flow = Flow(outputs=self.outputs.tensors()) if self.kind == "reentrant" else Flow()
        return Call(calls=self._inner(), region=self.kind, flow=flow)

    def recompute(self, again: "Region", nodes: Sequence[Node]) -> None:
        """The region ran again, completely; a backward from `nodes`, its outputs', comes next."""
        if self.kind != "reentrant":
            self.kind = "whole-recompute"  # it did not stop
            return
        reached: Set[Node] = set()
        for node in nodes:
            reached |= reachable(node)
        self.filled = True
        self.calls = merged(self.calls, again.calls)
        for item in self.parts():
            item.settle(reached)

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
            item.first = Flow(item.inputs.tensors(), item.outputs.tensors())
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


class Plans:
    """Numbers plans, each written once before its first use."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._numbers: Dict[Tuple[str, str], int] = {}

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


def reachable(root: Node) -> Set[Node]:
    """All nodes of the graph below a loss."""
    seen: Set[Node] = set()
    open_nodes = [root] if root is not None else []
    while open_nodes:
        node = open_nodes.pop()
        if node in seen:
            continue
        seen.add(node)
        open_nodes.extend(following for following, _ in node.next_functions if following is not None)
    return seen
