"""Reads the `model` of a scenario, in passes, because a module may name any other: the tree first, then what is
shared, then parameters that are tied or external, then what is frozen, then the forwards."""
import re
from typing import List, Optional, Set, Tuple

from zero3probe.run import External, ParamRef
from zero3probe.scenario.layers import apply_layer
from zero3probe.scenario.model import MAX_TREE, NONE, Model, Plan, numel_of
from zero3probe.scenario.plan import PlanReader
from zero3probe.scenario.presets import read_preset
from zero3probe.scenario.yaml_file import MAX_DEPTH, Node, Place, YamlFile

MAX_OUTPUTS = 1000
MAX_CALL_DEPTH = 500  # of modules, and of modules that call each other
_MODULE_KEYS = ("type", "params", "children", "external", "outputs", "leaf", "frozen", "forward")
_MODEL_KEYS = _MODULE_KEYS + ("preset", "other_roots", "freeze", "leaf_modules", "gradient_checkpointing")
_NAME = re.compile(r"[A-Za-z0-9_]+\Z")


def read_model(file: YamlFile, node: Node, plans: Optional[Node]) -> Model:
    """`plans`: the file's named plans, which a module's `forward` may name."""
    return _ModelReader(file, node, plans).read()


class _ModelReader:
    def __init__(self, file: YamlFile, node: Node, plans: Optional[Node]) -> None:
        self._file = file
        self._node = file.map(node, "the model")
        self._plans = plans
        self._model = Model()
        self._shared: List[Tuple[int, int, Node]] = []  # parent, position among its children, path
        self._later: List[Tuple[int, Node]] = []  # modules with a mapping of their own
        self._forward_places: List[Tuple[int, Place]] = []

    def read(self) -> Model:
        if self._node.find("preset") is not None:
            self._model = read_preset(self._file, self._node)
        else:
            self._file.check_keys(self._node, _MODEL_KEYS, "the model")
            self._read_module(self._node, self._model.add_root("root", "Module"), 0)
        self._read_other_roots()
        self._resolve_shared()
        for module, node in self._later:
            self._read_tied(module, node)
            self._read_external(module, node)
        self._check_sizes()
        self._freeze()
        self._mark_leaves()
        self._read_forwards()
        state = [0] * len(self._model.modules)
        for module, place in self._forward_places:
            self._visit(module, place, 0, state)
        return self._model

    def _read_module(self, node: Node, module: int, depth: int) -> None:
        file = self._file
        if depth > MAX_DEPTH:
            file.fail(node.place, "nested too deep")
        if node.is_scalar:
            self._apply(node, module)
            return
        if node.is_null:
            return
        if module != 0:
            file.check_keys(file.map(node, "a module"), _MODULE_KEYS, "a module")
        self._later.append((module, node))
        type_node, outputs, leaf = node.find("type"), node.find("outputs"), node.find("leaf")
        if type_node is not None:
            self._apply(type_node, module)
        if outputs is not None:
            self._model.modules[module].outputs = file.count(outputs, "outputs", MAX_OUTPUTS)
            if self._model.modules[module].outputs < 1:
                file.fail(outputs.place, "a module has at least one output")
        if leaf is not None:
            self._model.modules[module].leaf = file.boolean(leaf, "leaf")
        params, children = node.find("params"), node.find("children")
        if params is not None:
            self._read_params(params, module)
        if children is not None:
            self._read_children(children, module, depth)

    def _apply(self, node: Node, module: int) -> None:
        wrong = apply_layer(self._model, module, self._file.text(node, "a type"))
        if wrong:
            self._file.fail(node.place, wrong)

    def _read_params(self, params: Node, module: int) -> None:
        """Own params get their place now; those that refer to others are filled in when all are known."""
        file = self._file
        for name, place, value in file.map(params, "params").entries():
            self._check_name(name, place, "a parameter", module)
            shape: Optional[Node] = value
            if value.is_map:
                shape = value.find("shape")
                file.check_keys(value, ("shape", "requires_grad", "same_as"), "a parameter")
                tied = value.find("same_as") is not None
                if tied and len(value.keys) > 1:
                    file.fail(place, "a tied parameter has no shape or flag of its own")
                if not tied and shape is None:
                    file.fail(place, "'%s' has no shape" % name)
            index = self._model.add_param(module, name, [] if shape is None else self._read_shape(shape, name))
            requires_grad = value.find("requires_grad")
            if requires_grad is not None:
                self._model.param((module, index)).requires_grad = file.boolean(requires_grad, "requires_grad")

    def _read_shape(self, node: Node, name: str) -> List[int]:
        items = [node] if node.is_scalar else self._file.list(node, "a shape")
        shape = [self._file.count(item, "an extent of '%s'" % name) for item in items]
        if numel_of(shape) is None:
            self._file.fail(node.place, "'%s' has more than 2^62 elements" % name)
        return shape

    def _read_children(self, children: Node, parent: int, depth: int) -> None:
        for name, place, value in self._file.map(children, "children").entries():
            self._check_name(name, place, "a module", parent)
            path = value.find("same_as")
            if path is None:
                self._read_module(value, self._model.add_module(parent, name, "Module"), depth + 1)
                continue
            if len(value.keys) > 1:
                self._file.fail(place, "a shared module has nothing of its own beside same_as")
            self._file.text(path, "same_as")
            self._shared.append((parent, len(self._model.modules[parent].children), path))
            self._model.modules[parent].children.append((name, NONE))

    def _check_name(self, name: str, place: Place, what: str, owner: int) -> None:
        if not _NAME.match(name):
            self._file.fail(place, "'%s' is no name for %s" % (name, what))
        if any(param.name == name for param in self._model.modules[owner].params):
            self._file.fail(place, "the name '%s' is taken by a parameter of this module" % name)

    def _read_other_roots(self) -> None:
        roots = self._node.find("other_roots")
        if roots is None:
            return
        for name, place, value in self._file.map(roots, "other_roots").entries():
            self._check_name(name, place, "a root", 0)
            if self._model.child(0, name) != NONE or name == "root":
                self._file.fail(place, "the name '%s' is taken" % name)
            root = self._model.add_root(name, "Module")
            self._model.other_roots.append((name, root))
            self._read_module(value, root, 1)

    def _resolve_shared(self) -> None:
        """A path may lead through modules that are themselves shared, so: as long as one more can be resolved."""
        pending = self._shared
        progress = True
        while progress and pending:
            progress = False
            unresolved = []
            for parent, position, path in pending:
                target = self._model.find(0, path.scalar)
                if target < 0:
                    unresolved.append((parent, position, path))
                    continue
                progress = True
                self._refuse_cycle(parent, path, target)
                children = self._model.modules[parent].children
                children[position] = (children[position][0], target)
            pending = unresolved
        if pending:
            path = pending[0][2]
            self._file.fail(path.place, "there is no module '%s'" % path.scalar)

    def _refuse_cycle(self, parent: int, path: Node, target: int) -> None:
        seen: Set[int] = set()
        pending = [target]
        while pending:
            module = pending.pop()
            if module == parent:
                self._file.fail(path.place, "a cycle in the model: '%s' is below itself" % path.scalar)
            for _, child in self._model.modules[module].children:
                if child != NONE and child not in seen:
                    seen.add(child)
                    pending.append(child)

    def _read_tied(self, module: int, node: Node) -> None:
        params = node.find("params")
        for name, _, value in [] if params is None else params.entries():
            path = value.find("same_as")
            if path is None:
                continue
            owner = self._find_param(path)
            own = self._model.modules[module].params
            position = next(i for i, param in enumerate(own) if param.name == name)
            if owner == (module, position):
                self._file.fail(path.place, "a parameter tied to itself")
            if self._is_tied(owner):
                self._file.fail(path.place, "'%s' is itself tied" % path.scalar)
            own[position] = self._model.tied(name, owner)

    def _is_tied(self, ref: ParamRef) -> bool:
        """Whether the file ties it, followed already or not."""
        for module, node in self._later:
            params = node.find("params") if module == ref[0] else None
            value = None if params is None else params.find(self._model.param(ref).name)
            if value is not None and value.find("same_as") is not None:
                return True
        return False

    def _read_external(self, module: int, node: Node) -> None:
        external = node.find("external")
        for item in [] if external is None else self._file.list(external, "external"):
            if item.is_map:
                self._file.check_keys(item, ("param", "registered"), "an external parameter")
            path = item.find("param") if item.is_map else item
            if path is None:
                self._file.fail(item.place, "an external parameter needs its param")
                return
            registered = item.find("registered")
            used = External(self._find_param(path))
            used.registered = registered is not None and self._file.boolean(registered, "registered")
            self._model.modules[module].externals.append(used)

    def _find_param(self, path: Node) -> ParamRef:
        text = self._file.text(path, "a parameter's path")
        found = self._model.find_param(0, text)
        return found if found is not None else self._file.fail(path.place, "there is no parameter '%s'" % text)

    def _check_sizes(self) -> None:
        if self._model.total_numel() is None:
            self._file.fail(self._node.place, "the model has more than 2^62 elements")
        depth, visits = self._model.extent()
        if depth > MAX_CALL_DEPTH:
            self._file.fail(self._node.place, "modules nested more than %d deep" % MAX_CALL_DEPTH)
        if visits >= MAX_TREE:
            self._file.fail(self._node.place, "the model has %d modules or more" % MAX_TREE)

    def _freeze(self) -> None:
        for module, node in self._later:
            frozen = node.find("frozen")
            if frozen is not None and self._file.boolean(frozen, "frozen"):
                self._freeze_below(module)
        paths = self._node.find("freeze")
        for path in [] if paths is None else self._file.list(paths, "freeze"):
            module = self._model.find(0, self._file.text(path, "a path"))
            if module >= 0:
                self._freeze_below(module)
            else:
                self._freeze_one(self._find_param(path))

    def _freeze_below(self, module: int) -> None:
        for ref in self._model.params_below(module):
            self._freeze_one(ref)

    def _freeze_one(self, ref: ParamRef) -> None:
        """The owner of a tied parameter and everything tied to it are one tensor."""
        self._model.param(self._model.param(ref).same_as or ref).requires_grad = False

    def _mark_leaves(self) -> None:
        """set_z3_leaf_modules takes classes; a path to one module is understood too."""
        leaves = self._node.find("leaf_modules")
        for leaf in [] if leaves is None else self._file.list(leaves, "leaf_modules"):
            name = self._file.text(leaf, "a class or a path")
            found = [module for module in self._model.modules if module.type == name]
            index = NONE if found else self._model.find(0, name)
            if index >= 0:
                found = [self._model.modules[index]]
            if not found:
                self._file.fail(leaf.place, "no module is a '%s' or is at that path" % name)
            for module in found:
                module.leaf = True

    def _read_forwards(self) -> None:
        reader = PlanReader(self._file, self._model, self._plans)
        for module, node in self._later:
            forward = node.find("forward")
            if forward is not None and not forward.is_null:
                self._model.extra[module].forward = reader.read(forward, module)
                self._forward_places.append((module, forward.place))

    def _visit(self, module: int, place: Place, depth: int, state: List[int]) -> None:
        """A forward may call any module, as in Python; one that comes back to itself never ends."""
        opened, done = 1, 2
        if state[module] == done:
            return
        if state[module] == opened:
            self._file.fail(place, "'%s' calls itself without end" % self._model.modules[module].name)
        if depth > MAX_CALL_DEPTH:
            self._file.fail(place, "more than %d modules call each other in turn" % MAX_CALL_DEPTH)
        state[module] = opened
        self._visit_plan(self._model.own_forward(module), place, depth, state)
        state[module] = done

    def _visit_plan(self, plan: Plan, place: Place, depth: int, state: List[int]) -> None:
        for item in plan:
            if item.children is not None:
                self._visit_plan(item.children, place, depth, state)
            elif item.module >= 0:
                self._visit(item.module, place, depth + 1, state)
            for candidate in item.candidates:
                self._visit(candidate, place, depth + 1, state)
