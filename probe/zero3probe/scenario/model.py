"""A scenario's model while it is being read: the modules of the run file, and what only the reader knows, such as
which modules are mere containers and what a forward calls by default. Modules are named by index; -1 is none."""
import copy
from typing import Dict, List, Optional, Sequence, Set, Tuple

from zero3probe.run import Module, Param, ParamRef
from zero3probe.scenario.yaml_file import MAX_NUMEL

CONTAINERS = ("ModuleList", "ModuleDict", "ParameterList", "ParameterDict")
MAX_TREE = 1000000
NONE = -1


class PlanItem:
    """One item of a plan before draws are settled: a module call, or a draw among several (module -1)."""

    def __init__(self, module: int = NONE) -> None:
        self.module = module
        self.children: Optional[List["PlanItem"]] = None  # None: what its model says
        self.candidates: List[int] = []  # of a draw: `drawn` of them are called, in this order
        self.drawn = 0
        self.per_rank = False
        self.checkpoint: Optional[str] = None
        self.detach = False
        self.discard = False


Plan = List[PlanItem]


class Extra:
    """What the reader knows of a module beside the run file's part."""

    def __init__(self, container: bool) -> None:
        self.container = container
        self.forward: Optional[Plan] = None  # None: its children, in registration order


class Model:
    """The first module is the root. `hidden_size` is a preset's; 0: not known."""

    def __init__(self) -> None:
        self.modules: List[Module] = []
        self.extra: List[Extra] = []
        self.other_roots: List[Tuple[str, int]] = []
        self.hidden_size = 0

    def add_root(self, name: str, type_name: str) -> int:
        self.modules.append(Module(name, type_name))
        self.extra.append(Extra(type_name in CONTAINERS))
        return len(self.modules) - 1

    def add_module(self, parent: int, name: str, type_name: str) -> int:
        index = self.add_root(name if parent == 0 else self.modules[parent].name + "." + name, type_name)
        self.modules[parent].children.append((name, index))
        return index

    def add_param(self, owner: int, name: str, shape: Sequence[int]) -> int:
        self.modules[owner].params.append(Param(name, tuple(shape)))
        return len(self.modules[owner].params) - 1

    def param(self, ref: ParamRef) -> Param:
        return self.modules[ref[0]].params[ref[1]]

    def tied(self, name: str, ref: ParamRef) -> Param:
        """One more name of a parameter."""
        owner = self.param(ref)
        return Param(name, owner.shape, owner.requires_grad, owner.same_as or ref)

    def child(self, parent: int, name: str) -> int:
        for other, index in self.modules[parent].children:
            if other == name:
                return index
        return NONE

    def find_below(self, start: int, path: str) -> int:
        while path and start >= 0:
            name, _, path = path.partition(".")
            start = self.child(start, name)
        return start

    def find(self, start: int, path: str) -> int:
        """As seen from `start`, else from the root, else from another root that the path's first name names."""
        found = self.find_below(start, path)
        if found < 0:
            found = self.find_below(0, path)
        if found >= 0:
            return found
        first, _, rest = path.partition(".")
        for name, index in self.other_roots:
            if name == first:
                return self.find_below(index, rest)
        return NONE

    def find_param(self, start: int, path: str) -> Optional[ParamRef]:
        owner_path, _, name = path.rpartition(".")
        owner = self.find(start, owner_path)
        if owner >= 0:
            for i, param in enumerate(self.modules[owner].params):
                if param.name == name:
                    return owner, i
        return None

    def callable_children(self, parent: int) -> List[int]:
        """The modules that a container's parent calls for it: its children, those of containers among them."""
        called: List[int] = []
        for _, index in self.modules[parent].children:
            called.extend(self.callable_children(index) if self.extra[index].container else [index])
        return called

    def own_forward(self, module: int) -> Plan:
        """What a module calls when nobody says otherwise; the items are the caller's to change."""
        forward = self.extra[module].forward
        if forward is None:
            return [PlanItem(child) for child in self.callable_children(module)]
        return [copy.copy(item) for item in forward]

    def params_below(self, top: int) -> List[ParamRef]:
        """module.parameters(): pre-order, no duplicates."""
        params: List[ParamRef] = []
        seen_params: Set[ParamRef] = set()
        seen_modules: Set[int] = set()
        pending = [top]
        while pending:
            index = pending.pop()
            if index in seen_modules:
                continue
            seen_modules.add(index)
            for i, param in enumerate(self.modules[index].params):
                key = param.same_as or (index, i)
                if key not in seen_params:
                    seen_params.add(key)
                    params.append((index, i))
            pending.extend(child for _, child in reversed(self.modules[index].children))
        return params

    def total_numel(self) -> Optional[int]:
        """Elements of all distinct parameters; None: more than 2^62."""
        total = 0
        for module in self.modules:
            for param in module.params:
                if param.same_as is None:
                    numel = numel_of(param.shape)
                    if numel is None or total + numel > MAX_NUMEL:
                        return None
                    total += numel
        return total

    def extent(self) -> Tuple[int, int]:
        """Depth and size of a walk from its roots, every path to a shared module counted; up to MAX_TREE."""
        known: Dict[int, Tuple[int, int]] = {}
        for start in range(len(self.modules)):
            pending = [start]
            while pending:
                index = pending[-1]
                children = [child for _, child in self.modules[index].children]
                missing = [child for child in children if child not in known]
                if index not in known and missing:
                    pending.extend(missing)
                    continue
                pending.pop()
                depth = max([known[child][0] for child in children], default=0) + 1
                known[index] = (min(MAX_TREE, depth),
                                min(MAX_TREE, 1 + sum(known[child][1] for child in children)))
        return max(depth for depth, _ in known.values()), max(visits for _, visits in known.values())


def numel_of(shape: Sequence[int]) -> Optional[int]:
    """Elements of a shape; None: more than 2^62."""
    if 0 in shape:
        return 0
    numel = 1
    for extent in shape:
        numel *= extent
        if numel > MAX_NUMEL:
            return None
    return numel
