"""What a forward does, kept as flat as it comes, since a training step waits for every line here. Needs no torch.

A tape is a list of codes, small and alike in every step that does the same. What was seen of an equal tape before,
its plan, is looked up; only a new tape becomes the tree of calls of plans.py. Autograd's nodes stand beside the
codes until backward says which of them it comes to; any longer would hold the graph.
"""
from typing import Any, Callable, List, Optional, Set, Tuple

Node = Any  # of autograd's graph; None: a leaf

# Codes: a module's index when it is called, its inputs, its outputs when it returns or RAISED. A region begins with
# its kind and ends like a call. A weight that is read is its ParamRef.
RAISED = None
_SHIFT = 20  # tensors alone or in tuples below it, those in lists and dicts above


def inputs_code(tensors: int) -> int:
    return -2 - 2 * tensors


def outputs_code(tensors: int) -> int:
    return -1 - 2 * tensors


def is_inputs(code: int) -> bool:
    return code % 2 == 0


def tensors_of(code: int) -> Tuple[int, int]:
    """Of inputs or outputs: how many tensors require grad, alone or in tuples, and in lists and dicts."""
    tensors = (-1 - code) // 2
    return tensors & ((1 << _SHIFT) - 1), tensors >> _SHIFT


class Pass:
    """One more run of a checkpointed region, in backward. `stopped`: it ended early."""
    __slots__ = ("tape", "stopped")

    def __init__(self, tape: "Tape", stopped: bool) -> None:
        self.tape = tape
        self.stopped = stopped


class Recomputed:
    """A region of a tape, and its recomputations."""
    __slots__ = ("module", "kind", "passes")

    def __init__(self, module: int, kind: str) -> None:
        self.module = module  # the module around it
        self.kind = kind
        self.passes: List[Pass] = []


class Tape:
    """Calls one after the other, with what they call: those of a forward, or of a region that runs again."""
    __slots__ = ("codes", "nodes", "regions", "reached", "_roots", "_executes", "_hook")

    def __init__(self) -> None:
        self.codes: List[Any] = []
        self.nodes: List[Node] = []  # those of each inputs and outputs code, in their order
        self.regions: List[Recomputed] = []
        self.reached: Optional[Tuple[bool, ...]] = None  # for each node; None: nobody knows, so all
        self._roots: Optional[List[Node]] = None
        self._executes: Any = None
        self._hook: Any = None

    def inputs(self, args: Any, tensor: type) -> None:
        self.codes.append(inputs_code(add_nodes(args, tensor, self.nodes)))

    def outputs(self, result: Any, tensor: type) -> None:
        self.codes.append(outputs_code(add_nodes(result, tensor, self.nodes)))

    def returned(self) -> List[Node]:
        """The nodes of what the last call returned."""
        last = self.codes[-1] if self.codes else RAISED
        number = sum(tensors_of(last)) if last is not RAISED else 0
        return self.nodes[len(self.nodes) - number:]

    def backward_begins(self, roots: List[Node], executes: Optional[Callable[[Node], bool]]) -> None:
        """A backward from these nodes comes next. `executes`: autograd's answer, while a backward runs."""
        if self.reached is not None:
            return
        self._roots = roots = [node for node in roots if node is not None]
        register = getattr(roots[0], "register_prehook", None) if len(roots) == 1 else None
        if register is None or executes is None:
            self._settle()
            return
        self._executes, self._hook = executes, register(self._backward_runs)

    def _backward_runs(self, *grads: Any) -> None:
        """Autograd has looked at its whole graph by now: asking it is far cheaper than another walk."""
        if self._roots is None:
            return
        root, executes = self._roots[0], self._executes
        try:
            self._keep([node is None or node is root or executes(node) for node in self.nodes])
        except Exception:
            pass  # walks when the tape is written

    def _keep(self, reached: List[bool]) -> None:
        self.reached = tuple(reached)
        self.nodes, self._roots = [], None

    def _settle(self) -> None:
        if self._roots is None:
            self.nodes = []
            return
        reached: Set[Node] = set()
        for root in self._roots:
            reached |= reachable(root)
        self._keep([node is None or node in reached for node in self.nodes])

    def signature(self) -> Tuple[Any, ...]:
        """Equal for tapes that make equal plans. Lets the nodes go."""
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
        if self.reached is None:
            self._settle()
        regions = tuple([(region.module, tuple([(each.stopped, each.tape.signature()) for each in region.passes]))
                         for region in self.regions])
        return tuple(self.codes), self.reached, regions


def add_nodes(value: Any, tensor: type, nodes: List[Node]) -> int:
    """The tensors that require grad in what a call was given or returned, as DeepSpeed's hooks find them.

    Returns their number, as a code has it.
    """
    if type(value) is tuple and len(value) == 1:
        value = value[0]
    if type(value) is tensor:
        if not value.requires_grad:
            return 0
        nodes.append(value.grad_fn)
        return 1
    contained: List[Node] = []
    before = len(nodes)
    _sort_nodes(value, tensor, nodes, contained)
    alone = len(nodes) - before
    nodes += contained
    return alone | len(contained) << _SHIFT


def _sort_nodes(value: Any, tensor: type, nodes: List[Node], contained: List[Node]) -> None:
    if isinstance(value, tensor):
        if value.requires_grad:
            nodes.append(value.grad_fn)
    elif isinstance(value, (tuple, list)):
        below = nodes if type(value) is tuple else contained
        for item in value:
            if item is not None:
                _sort_nodes(item, tensor, below, contained)
    elif isinstance(value, dict):
        for item in value.values():
            if item is not None:
                _sort_nodes(item, tensor, contained, contained)


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
