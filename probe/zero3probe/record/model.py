"""The model below an engine as a run file tells it: modules by index, parameters, settings."""
import sys
from typing import Any, Dict, List, Tuple

from zero3probe.run import Engine, External, Module, Param, ParamRef, Run

_NO_LIMIT = 1 << 62


class ModelMap:
    """Modules and parameters of all engines, by identity; indices are those of Run.modules."""

    def __init__(self) -> None:
        self.modules: List[Module] = []
        self.objects: List[Any] = []  # the modules themselves: their ids stay theirs
        self.index: Dict[int, int] = {}  # by id(module)
        self.params: Dict[int, ParamRef] = {}  # by id(param)
        self.owners: Dict[int, List[int]] = {}  # id(param): modules that register it
        self.shown: List[Tuple[str, Any]] = []  # the parameters under their qualified names

    def add_root(self, root: Any) -> int:
        """Everything below a root that is not there yet. Returns the root's index."""
        if id(root) in self.index:
            return self.index[id(root)]
        return self._add(root, "", type(root).__name__)

    def _add(self, module: Any, prefix: str, name: str) -> int:
        made = Module(name, type(module).__name__)
        number = len(self.modules)
        self.modules.append(made)
        self.objects.append(module)
        self.index[id(module)] = number
        made.qualified_type = "%s.%s" % (type(module).__module__, type(module).__qualname__)
        marked = bool(module.__dict__.get("_z3_leaf", False))
        made.leaf = marked and made.qualified_type not in default_leaves()
        for local, param in module._parameters.items():
            if param is not None:
                self._add_param(number, local, param)
        for local, child in module._modules.items():
            if child is None:
                continue
            below = prefix + local
            made.children.append((local, self.index[id(child)] if id(child) in self.index
                                  else self._add(child, below + ".", below)))
        return number

    def _add_param(self, module: int, local: str, param: Any) -> None:
        params = self.modules[module].params
        self.owners.setdefault(id(param), []).append(module)
        if id(param) in self.params:
            params.append(Param(local, same_as=self.params[id(param)]))
            return
        self.params[id(param)] = (module, len(params))
        self.shown.append(("%s.%s" % (self.modules[module].name, local), param))
        params.append(Param(local, tuple(int(n) for n in getattr(param, "ds_shape", param.shape)),
                            bool(param.requires_grad)))

    def add_externals(self) -> None:
        """What register_external_parameter named before the first forward."""
        for made, module in zip(self.modules, self.objects):
            external = module.__dict__.get("_external_params") or {}
            made.externals = [External(self.params[id(param)], True)
                              for param in external.values() if id(param) in self.params]

    def ids_in_order(self) -> bool:
        """Whether DeepSpeed numbered the parameters in the order in which this file has them."""
        ids = [param.ds_id for _, param in self.shown if hasattr(param, "ds_id")]
        return ids == sorted(ids)


def default_leaves() -> List[str]:
    """Classes that this release makes leaf modules by itself (v0.18.0 and later): nobody asked for those."""
    config = sys.modules.get("deepspeed.runtime.zero.leaf_module_config")
    return list(getattr(config, "DEFAULT_LEAF_MODULE_CLASSES", ()))


def settings_of(engine: Any) -> Dict[str, Any]:
    """The settings that decide, all of them, as the engine resolved them."""
    def ask(*names: str, default: Any) -> Any:
        for name in names:
            method = getattr(type(engine), name, None)
            if method is not None:
                value = method(engine)
                return default if value is None else value
        return default

    def size(name: str, default: int) -> int:
        return min(int(ask(name, default=default)), _NO_LIMIT)
    zero = {
        "stage": 3,
        "stage3_prefetch_bucket_size": size("zero_prefetch_bucket_size", 50_000_000),
        "stage3_max_live_parameters": size("zero_max_live_parameters", 1_000_000_000),
        "stage3_max_reuse_distance": size("zero_max_reuse_distance", 1_000_000_000),
        "stage3_param_persistence_threshold": size("zero_param_persistence_threshold", 100_000),
        "stage3_model_persistence_threshold": size("zero_model_persistence_threshold", _NO_LIMIT),
        "stage3_gather_16bit_weights_on_model_save": bool(ask(
            "zero_gather_16bit_weights_on_model_save", "zero_gather_fp16_weights_on_model_save",
            default=False)),
        "log_trace_cache_warnings": bool(ask("zero_log_trace_cache_warnings", default=False)),
    }
    return {"gradient_accumulation_steps": int(ask("gradient_accumulation_steps", default=1)),
            "fp16": {"enabled": bool(ask("fp16_enabled", default=False))}, "zero_optimization": zero}


def has_optimizer(engine: Any) -> bool:
    """Without one, the object that manages parameters stands in the optimizer's place, or nothing does."""
    return engine.optimizer is not None and type(engine.optimizer).__name__ != "DeepSpeedZeRoOffload"


def header_run(name: str, ranks: int, engines: List[Engine], model: ModelMap, settings: Dict[str, Any],
               recorded: Dict[str, Any]) -> Run:
    """The run without its statements."""
    return Run(name=name, ranks=ranks, deepspeed_config=settings, engines=engines, modules=model.modules,
               recorded=recorded)
