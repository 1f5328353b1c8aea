"""The torch model of a run: small modules that use their weights and call what the plan says.

What a module computes has the shape of what DeepSpeed watches: other modules' parameters that it uses, then its
own, then the calls of its plan, one after the other. The stream is a tensor of MICRO_BATCH x WIDTH ones that stays
finite: weights start as the identity or 0.
"""
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from zero3probe.refusal import CannotRun
from zero3probe.run import Call, Module, ParamRef, Run

WIDTH = 8
_EARLY_STOP = hasattr(torch.utils.checkpoint, "set_checkpoint_early_stop")


class Forward:
    """What one forward calls: each running module finds its plan on the stack."""

    def __init__(self) -> None:
        self.plans: List[List[Call]] = []
        self.modules: List["ProbeModule"] = []

    def call(self, module: torch.nn.Module, plan: List[Call], value: torch.Tensor) -> Any:
        self.plans.append(plan)
        try:
            return module(value)
        finally:
            self.plans.pop()

    def call_in_turn(self, calls: List[Call], value: torch.Tensor) -> torch.Tensor:
        """Each call takes what the one before it returned."""
        for call in calls:
            returned = self._call_checkpointed(call, value.detach() if call.detach else value)
            if not call.discard:
                value = joined(returned)
        return value

    def _call_checkpointed(self, call: Call, value: torch.Tensor) -> Any:
        module = self.modules[call.module]

        def run(inner: torch.Tensor) -> Any:
            return self.call(module, call.calls, inner)
        if call.checkpoint is None:
            return run(value)
        if call.checkpoint == "reentrant":
            return checkpoint(run, value, use_reentrant=True)
        if _EARLY_STOP and call.checkpoint == "whole-recompute":
            return _WholeRecompute(run, value).forward()
        if call.checkpoint == "non-reentrant" and not _EARLY_STOP:
            raise CannotRun("checkpointing \"non-reentrant\" stops its recomputation early, which torch %s "
                            "cannot; a scenario's \":whole_recompute\" is what it does" % torch.__version__)
        return checkpoint(run, value, use_reentrant=False)


class _WholeRecompute:
    """A region as use_reentrant=False ran it before torch 2.1, on a later torch.

    `set_checkpoint_early_stop(False)` is not that: a region's input is a tensor saved by the region around it there,
    and what is recomputed must have the shape it had.
    """

    def __init__(self, run: Callable[[torch.Tensor], Any], value: torch.Tensor) -> None:
        self._run = run
        self._value = value
        self._saved = 0  # tensors, in forward
        self._recomputed: List[torch.Tensor] = []

    def forward(self) -> Any:
        with saved_tensors_hooks(self._number, self._recompute):
            return self._run(self._value)

    def _number(self, tensor: torch.Tensor) -> int:
        self._saved += 1
        return self._saved - 1

    def _recompute(self, number: int) -> torch.Tensor:
        """The first tensor that backward asks for runs the region again, to its end."""
        if not self._recomputed:
            with torch.enable_grad(), saved_tensors_hooks(self._keep, self._keep):
                self._run(self._value)
        return self._recomputed[number]

    def _keep(self, tensor: torch.Tensor) -> torch.Tensor:
        self._recomputed.append(tensor.detach())
        return tensor


def joined(returned: Any) -> torch.Tensor:
    """What a caller computes from a module's outputs: their sum."""
    if not isinstance(returned, tuple):
        return returned
    total = returned[0]
    for output in returned[1:]:
        total = total + output
    return total


class ProbeModule(torch.nn.Module):
    """One module of a run. Each `type` has a subclass of its own, named so."""

    def __init__(self, forward: Forward, name: str, outputs: int) -> None:
        super().__init__()
        self.__dict__["probe_forward"] = forward
        self.__dict__["probe_externals"] = []  # (module, name of its parameter, numel)
        self.__dict__["probe_own"] = []  # (name, numel), each parameter once
        self.probe_name = name
        self.probe_outputs = outputs
        self.probe_linear = False
        self.probe_in_features = 0  # of a Linear

    def forward(self, value: torch.Tensor) -> Any:
        for module, name, numel in self.probe_externals:
            value = _used(value, getattr(module, name), numel)
        if self.probe_linear:
            weight = self.weight
            if weight.numel() == 0:
                value = _used(value, weight, WIDTH * WIDTH)
            value = torch.nn.functional.linear(value, weight, getattr(self, "bias", None))
        else:
            self._fail_as_linear(value)
            for name, numel in self.probe_own:
                value = _used(value, getattr(self, name), numel)
        if not self.probe_own and not self.probe_externals and not self._modules:
            value = torch.tanh(value)
        value = self.probe_forward.call_in_turn(self.probe_forward.plans[-1], value)
        if self.probe_outputs > 1:
            return tuple(torch.tanh(value) for _ in range(self.probe_outputs))
        return value


    def _fail_as_linear(self, value: torch.Tensor) -> None:
        """Of a weight of one element; a Linear of another width than the stream's does not compute as one otherwise."""
        weight = getattr(self, "weight", None)
        if self.probe_in_features and weight is not None and weight.dim() == 1 and weight.numel() == 1:
            rows = torch.ones(value.shape[0], self.probe_in_features, device=value.device)
            torch.nn.functional.linear(rows, weight, getattr(self, "bias", None))


def _used(value: torch.Tensor, param: torch.Tensor, numel: int) -> torch.Tensor:
    """The stream after one use of a parameter of `numel` elements; a partitioned one fails as any use would."""
    if numel == 0:
        return value * (1 + param.sum())
    if param.numel() == 0:
        param = torch.ones(numel, device=value.device, dtype=param.dtype) * param
    return value * (1 + param.mean())


def _class_of(module: Module) -> type:
    """A class of the module's name; of its Python module too where that is known: DeepSpeed has leaf classes by name."""
    package = module.qualified_type.rpartition(".")[0]
    return type(module.type, (ProbeModule,), {"__module__": package} if package else {})


class Model:
    """All modules and parameters of a run, before DeepSpeed has seen them."""

    def __init__(self, run: Run) -> None:
        self.forward = Forward()
        self.modules: List[ProbeModule] = []
        self._params: Dict[ParamRef, torch.nn.Parameter] = {}
        self.param_names: List[Tuple[str, torch.nn.Parameter]] = []  # qualified, each parameter once
        classes: Dict[str, type] = {}
        for module in run.modules:
            made = classes.setdefault(module.qualified_type or module.type, _class_of(module))
            self.modules.append(made(self.forward, module.name, module.outputs))
        self.forward.modules = self.modules
        self._register_params(run)
        for made, module in zip(self.modules, run.modules):
            for name, child in module.children:
                made.add_module(name, self.modules[child])
        for made, module in zip(self.modules, run.modules):
            for external in module.externals:
                owner, index = external.param
                made.probe_externals.append((self.modules[owner], run.modules[owner].params[index].name,
                                             self.param(external.param).numel()))

    def param(self, ref: ParamRef) -> torch.nn.Parameter:
        return self._params[ref]

    def _register_params(self, run: Run) -> None:
        for index, module in enumerate(run.modules):
            linear = _is_linear(module, {param.name: param.shape for param in module.params})
            for number, param in enumerate(module.params):
                if param.same_as is None:
                    made = torch.nn.Parameter(_start(param.shape, linear and param.name == "weight"),
                                              requires_grad=param.requires_grad)
                    self._params[(index, number)] = made
                    name = param.name if index == 0 else module.name + "." + param.name
                    self.param_names.append((name, made))
        for index, module in enumerate(run.modules):
            shapes: Dict[str, Tuple[int, ...]] = {}
            seen: List[Optional[torch.nn.Parameter]] = []
            for number, param in enumerate(module.params):
                made = self._resolve(run, (index, number))
                self._params[(index, number)] = made
                self.modules[index].register_parameter(param.name, made)
                shapes[param.name] = tuple(made.shape)
                if not any(made is other for other in seen):
                    seen.append(made)
                    self.modules[index].probe_own.append((param.name, made.numel()))
            self.modules[index].probe_linear = _is_linear(module, shapes)
            if module.type == "Linear" and len(shapes.get("weight", ())) == 2:
                self.modules[index].probe_in_features = shapes["weight"][1]

    def _resolve(self, run: Run, ref: ParamRef) -> torch.nn.Parameter:
        for _ in range(1 + len(run.modules)):
            same_as = run.modules[ref[0]].params[ref[1]].same_as
            if same_as is None:
                return self._params[ref]
            ref = same_as
        raise CannotRun("parameters that are the same as each other in a circle")


def _is_linear(module: Module, shapes: Dict[str, Tuple[int, ...]]) -> bool:
    """Whether the module is a Linear that fits the stream, and so computes as one. `shapes`: of its parameters."""
    return (module.type == "Linear"
            and shapes in ({"weight": (WIDTH, WIDTH)}, {"weight": (WIDTH, WIDTH), "bias": (WIDTH,)}))


def _start(shape: Tuple[int, ...], identity: bool) -> torch.Tensor:
    return torch.eye(WIDTH) if identity else torch.zeros(shape)
