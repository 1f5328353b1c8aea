"""The calls of one forward while they are being made, and the plans that they become. Needs no torch.

A Frame is one module call. It keeps the autograd nodes of its tensors until backward says which of them it
reaches; any longer would hold the graph. Equal plans are one plan: a step like all before it costs one line.
"""
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

from zero3probe.run import Call, Flow, ParamRef, Tensors
from zero3probe.run_file import call_item, dumps, plan_item

Node = Any  # of autograd's graph; None: a leaf


class Ends:
    """The tensors that require grad on one side of a call: alone or in tuples, and in lists and dicts."""
    __slots__ = ("plain", "contained")

    def __init__(self) -> None:
        self.plain: List[Node] = []
        self.contained: List[Node] = []

    def tensors(self, reached: Optional[Set[Node]]) -> Tensors:
        """`reached`: the nodes that backward comes to; None: nobody knows, so all of them."""
        def count(nodes: Sequence[Node]) -> int:
            if reached is None:
                return len(nodes)
            return sum(node is None or node in reached for node in nodes)
        return Tensors(len(self.plain), count(self.plain), len(self.contained), count(self.contained))


class Frame:
    """One module call: its module's index, what it called, and its tensors."""
    __slots__ = ("module", "calls", "inputs", "outputs", "checkpoint", "recomputed")

    def __init__(self, module: int, checkpoint: Optional[str] = None) -> None:
        self.module = module
        self.calls: List[Any] = []  # Frame, or ParamRef of a weight that is read
        self.inputs = Ends()
        self.outputs = Ends()
        self.checkpoint = checkpoint
        self.recomputed = False  # a reentrant region whose recomputation gave its tensors

    def reads(self, param: ParamRef) -> None:
        """The module reads a parameter that is not its own."""
        if param not in self.calls:
            self.calls.append(param)

    def take_recomputed(self, other: "Frame") -> None:
        """The tensors of a reentrant region are there when backward runs it again."""
        self.calls, self.inputs, self.outputs = other.calls, other.inputs, other.outputs
        self.recomputed = True

    def call(self, reached: Optional[Set[Node]]) -> Call:
        """`reached` as in Ends.tensors; a region's own backward reaches all that it recomputes."""
        seen = None if self.recomputed else reached
        calls = [_call(item, seen) for item in self.calls]
        return Call(self.module, calls, self.checkpoint, flow=self.flow(seen))

    def flow(self, reached: Optional[Set[Node]]) -> Flow:
        return Flow(self.inputs.tensors(reached), self.outputs.tensors(reached))


def _call(item: Any, reached: Optional[Set[Node]]) -> Call:
    return item.call(reached) if isinstance(item, Frame) else Call(read=item)


def unfilled_regions(frame: Frame) -> List[Frame]:
    """Reentrant regions below a frame, itself included, that no recomputation has filled; in order."""
    found = [frame] if frame.checkpoint == "reentrant" and not frame.recomputed else []
    for item in frame.calls:
        if isinstance(item, Frame):
            found += unfilled_regions(item)
    return found


def has_region(frame: Frame) -> bool:
    """Whether there is a checkpointed region in a frame."""
    return frame.checkpoint is not None or any(isinstance(item, Frame) and has_region(item)
                                               for item in frame.calls)


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
