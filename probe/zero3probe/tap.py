"""Taps on DeepSpeed's parameter coordinator: every event of docs/trace-format.md that leaves a call to see.

DeepSpeed's files stay as they are: methods of its classes are wrapped in this process. The wrappers are known by
their code objects, so that paths of errors do not name them. One tap a process; it records while `recording`.
"""
import functools
import sys
from typing import Any, Callable, Dict, List, Optional

_MANGLED = "_PartitionedParameterCoordinator__"
_STATUS_LETTERS = {"NOT_AVAILABLE": "N", "INFLIGHT": "I", "AVAILABLE": "A"}

# DeepSpeed's function on the way to a partition: why the parameter is released. The innermost one decides.
_RELEASE_REASONS = {
    "release_and_reset_parameter": "end-of-backward",
    "_clean_inflight_param_registry": "cleaned",
    "release_backward_leftovers": "leftover",
    "release_and_reset_all": "partition-all",
    "__exit__": "context-exit",
    "_exit": "context-exit",
}
_GATHER_REASONS = {
    "__enter__": "gather-context",
    "_post_step": "persistent",
    "step": "persistent",
    "checkpoint_event_epilogue": "persistent",
    "save_checkpoint_epilogue": "persistent",
    "__getitem__": "accessed",
    "_post_forward_module_hook": "accessed",
}


class Tap:
    """What the wrappers write to."""

    def __init__(self) -> None:
        self.sink: Callable[[str, Dict[str, Any]], None] = lambda event, keys: None
        self.recording = False
        self.rank = 0
        self.wrappers: set = set()  # code objects
        self.module_names: Dict[int, str] = {}  # id(module)
        self.param_names: Dict[int, str] = {}  # id(param)
        self.fetched: Optional[Any] = None  # (module, step) of the fetch that runs; step None: its prefetch

    def emit(self, event: str, keys: Dict[str, Any]) -> None:
        """One event; its keys in the trace's order."""
        self.sink(event, keys)

    def wrap(self, owner: Any, name: str, make: Callable[[Callable], Callable]) -> None:
        """Replaces owner.name by make(original)."""
        original = getattr(owner, name)
        wrapper = make(original)
        self.wrappers.add(wrapper.__code__)
        functools.update_wrapper(wrapper, original)
        setattr(owner, name, wrapper)

    def module_keys(self, module: Any) -> Dict[str, Any]:
        return {"module": self.module_names.get(id(module), type(module).__name__),
                "module_id": getattr(module, "ds_id", getattr(module, "id", -1))}

    def param_keys(self, params: List[Any]) -> Dict[str, Any]:
        return {"params": [self.param_names.get(id(param), "?") for param in params],
                "ds_ids": [param.ds_id for param in params]}

    def status_letter(self, param: Any) -> str:
        return _STATUS_LETTERS[param.ds_status.name]


def is_active(param: Any) -> bool:
    """Whether a module still counts as using it: a set of ids, up to v0.5.10 a counter."""
    active = getattr(param, "ds_active_sub_modules", 0)
    return active > 0 if isinstance(active, int) else bool(active)


def coordinator_class() -> Any:
    """PartitionedParameterCoordinator of the imported release."""
    try:
        from deepspeed.runtime.zero.partitioned_param_coordinator import PartitionedParameterCoordinator
    except ImportError:
        from deepspeed.runtime.zero.stage3 import PartitionedParameterCoordinator
    return PartitionedParameterCoordinator


def install(tap: Tap) -> None:
    """Wraps what the imported release has."""
    coordinator = coordinator_class()
    home = sys.modules[coordinator.__module__]
    _tap_partitioning(tap)
    _tap_externals(tap)
    if hasattr(home, "PrefetchCoordinator"):
        from zero3probe import tap_v1
        tap_v1.install(tap, coordinator)
        return
    _tap_fetch(tap, coordinator)
    _tap_trace_modes(tap, coordinator)
    _tap_prints(tap, home)
    registry = getattr(home, "InflightParamRegistry", None) or getattr(coordinator,
                                                                      _MANGLED + "InflightParamRegistry")
    _tap_waits(tap, registry)


def _tap_fetch(tap: Tap, coordinator: Any) -> None:
    def make(original: Callable) -> Callable:
        def zero3probe_fetch(self, module, *args, **kwargs):
            if not tap.recording:
                return original(self, module, *args, **kwargs)
            outer, tap.fetched = tap.fetched, (module, getattr(self, _MANGLED + "step_id"))
            tap.emit("fetch", dict(tap.module_keys(module), step=tap.fetched[1], **_pass_of(args, kwargs)))
            try:
                return original(self, module, *args, **kwargs)
            finally:
                tap.fetched = outer
        return zero3probe_fetch
    tap.wrap(coordinator, "fetch_sub_module", make)


def _pass_of(args: Any, kwargs: Any) -> Dict[str, str]:
    """fetch_sub_module's own `forward`, or, where it has none, who calls it."""
    forward = args[0] if args else kwargs.get("forward")
    if forward is None:
        frame = sys._getframe(2)
        while frame is not None and not frame.f_code.co_name.startswith("pre_sub_module_"):
            frame = frame.f_back
        forward = frame is not None and "forward" in frame.f_code.co_name
    return {"pass": "forward" if forward else "backward"}


def _tap_trace_modes(tap: Tap, coordinator: Any) -> None:
    def mode(self) -> str:
        trace_mode = getattr(self, _MANGLED + "trace_mode", None)
        return trace_mode.name if trace_mode is not None else str(getattr(self, "trace_complete", None))

    def make_reset(original: Callable) -> Callable:
        def zero3probe_reset(self, *args, **kwargs):
            if not tap.recording:
                return original(self, *args, **kwargs)
            tap.emit("reset", {"step": getattr(self, _MANGLED + "step_id")})
            result = original(self, *args, **kwargs)
            tap.emit("reset-done", {"text": mode(self)})
            return result
        return zero3probe_reset

    def make_invalidate(original: Callable) -> Callable:
        def zero3probe_invalidate(self, *args, **kwargs):
            if tap.recording:
                _emit_invalidate(tap, self)
            return original(self, *args, **kwargs)
        return zero3probe_invalidate
    tap.wrap(coordinator, "reset_step", make_reset)
    if hasattr(coordinator, "_invalidate_trace"):
        tap.wrap(coordinator, "_invalidate_trace", make_invalidate)


def _emit_invalidate(tap: Tap, coordinator: Any) -> None:
    caller = sys._getframe(2)
    module = caller.f_locals.get("sub_module") if caller.f_code.co_name == "trace_prologue" else None
    step = getattr(coordinator, _MANGLED + "step_id")
    order = getattr(coordinator, _MANGLED + "submodule_order")
    expected = -1
    if module is not None and step < len(order):
        expected = getattr(order[step], "ds_id", getattr(order[step], "id", -1))
    tap.emit("invalidate", dict(tap.module_keys(module) if module is not None else {}, step=step,
                                expected_module_id=expected, trace_length=len(order)))


def _tap_prints(tap: Tap, home: Any) -> None:
    """What the coordinator's file prints with `force`, which is what a user sees; on rank 0."""
    if not hasattr(home, "print_rank_0"):
        return

    def make(original: Callable) -> Callable:
        def zero3probe_print(message, *args, **kwargs):
            forced = kwargs.get("force") or (len(args) > 1 and args[1])
            if tap.recording and forced and tap.rank == 0:
                caller = sys._getframe(1)
                module = caller.f_locals.get("sub_module")
                coordinator = caller.f_locals.get("self")
                step = getattr(coordinator, _MANGLED + "step_id", None)
                keys = tap.module_keys(module) if module is not None else {}
                if step is not None:
                    keys["step"] = step
                tap.emit("print", dict(keys, text=str(message)))
            return original(message, *args, **kwargs)
        return zero3probe_print
    tap.wrap(home, "print_rank_0", make)


def _tap_waits(tap: Tap, registry: Any) -> None:
    """A module's fetch takes each parameter's handle out of the registry to wait for it."""
    def make(original: Callable) -> Callable:
        def zero3probe_pop(self, param, *args, **kwargs):
            handle = original(self, param, *args, **kwargs)
            if tap.recording and tap.fetched is not None:
                module, step = tap.fetched
                tap.emit("wait", dict(tap.module_keys(module), **tap.param_keys([param]), step=step))
            return handle
        return zero3probe_pop
    tap.wrap(registry, "pop", make)


def _tap_partitioning(tap: Tap) -> None:
    from deepspeed.runtime.zero import partition_parameters
    init = partition_parameters.Init
    can_refuse = hasattr(partition_parameters, "_no_gather_coalesced")  # one rank: v0.9.0 and later

    def make_partition(original: Callable) -> Callable:
        def zero3probe_partition(self, param, *args, **kwargs):
            was_available = tap.recording and param.ds_status.name == "AVAILABLE"
            result = original(self, param, *args, **kwargs)
            if was_available:
                reason = _release_reason(tap)
                tap.emit("release", dict(tap.param_keys([param]), **({"reason": reason} if reason else {})))
            return result
        return zero3probe_partition

    def make_gather(original: Callable) -> Callable:
        def zero3probe_gather(self, param_list, *args, **kwargs):
            if tap.recording and not (can_refuse and self.num_partitions == 1 and _has_twice(param_list)):
                _emit_gather(tap, param_list)
            return original(self, param_list, *args, **kwargs)
        return zero3probe_gather

    def make_convert(original: Callable) -> Callable:
        def zero3probe_convert(self, param, *args, **kwargs):
            result = original(self, param, *args, **kwargs)
            if hasattr(param, "all_gather_coalesced"):
                _tap_coalesced(tap, param)
            return result
        return zero3probe_convert
    tap.wrap(init, "_partition_param", make_partition)
    tap.wrap(init, "_all_gather", make_gather)
    tap.wrap(init, "_convert_to_deepspeed_param", make_convert)


def _has_twice(params: List[Any]) -> bool:
    """Whether one that is to be gathered is listed twice: _no_gather_coalesced raises before it gathers anything."""
    ids = [id(param) for param in params if param.ds_status.name == "NOT_AVAILABLE"]
    return len(ids) != len(set(ids))


def _tap_coalesced(tap: Tap, param: Any) -> None:
    original = param.all_gather_coalesced

    def zero3probe_gather_coalesced(params, *args, **kwargs):
        params = list(params)
        if tap.recording and all(p.ds_status.name == "NOT_AVAILABLE" for p in params):
            _emit_gather(tap, sorted(params, key=lambda p: p.ds_id))
        return original(params, *args, **kwargs)
    tap.wrappers.add(zero3probe_gather_coalesced.__code__)
    param.all_gather_coalesced = zero3probe_gather_coalesced


def _emit_gather(tap: Tap, param_list: List[Any]) -> None:
    """One collective for those of the list that are not there yet, each once."""
    launched = []
    for param in param_list:
        if param.ds_status.name == "NOT_AVAILABLE" and not any(param is other for other in launched):
            launched.append(param)
    if not launched:
        return
    keys: Dict[str, Any] = {}
    reason = _gather_reason(tap) if tap.fetched is None else _fetch_reason(tap, launched[0])
    if tap.fetched is not None:
        keys.update(tap.module_keys(tap.fetched[0]))
    elif reason == "accessed":
        keys.update(_running_module(tap))
    keys.update(tap.param_keys(launched))
    if reason:
        keys["reason"] = reason
    tap.emit("all-gather", keys)


def _gather_reason(tap: Tap) -> Optional[str]:
    """Of a launch outside any module's fetch: the innermost function that tells."""
    frame = sys._getframe(2)
    while frame is not None:
        reason = _GATHER_REASONS.get(frame.f_code.co_name)
        if reason is not None and frame.f_code not in tap.wrappers:
            return reason
        frame = frame.f_back
    return None


def _fetch_reason(tap: Tap, param: Any) -> str:
    """Of a launch within a module's fetch: its own parameters, or else a prefetch."""
    module, step = tap.fetched
    if step is None:
        return "prefetched"
    own = list(module.parameters(recurse=getattr(module, "_z3_leaf", False)))
    own += list(getattr(module, "_external_params", {}).values())
    return "needed" if any(param is other for other in own) else "prefetched"


def _running_module(tap: Tap) -> Dict[str, Any]:
    """The module whose forward reads a parameter."""
    for home in ("parameter_offload", "stage3"):
        stack = getattr(sys.modules.get("deepspeed.runtime.zero." + home), "FWD_MODULE_STACK", None)
        if stack:
            return tap.module_keys(stack[-1])
    return {}


def _release_reason(tap: Tap) -> Optional[str]:
    """Why the parameter at hand is partitioned: the innermost function that tells."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_name
        if frame.f_code not in tap.wrappers:
            if name == "release_sub_module":
                return "not-reused" if _trace_is_complete(frame.f_locals["self"]) else "trace-incomplete"
            if name in _RELEASE_REASONS:
                return _RELEASE_REASONS[name]
        frame = frame.f_back
    return None


def _trace_is_complete(coordinator: Any) -> bool:
    if hasattr(coordinator, "prefetch_coordinator"):
        return coordinator.prefetch_coordinator.trace_completed
    if hasattr(coordinator, "is_complete_trace"):
        return coordinator.is_complete_trace()
    return bool(coordinator.trace_complete)


def _tap_externals(tap: Tap) -> None:
    def make(original: Callable) -> Callable:
        def zero3probe_register(module, parameter):
            if tap.recording:
                tap.emit("external", dict(tap.module_keys(module), **tap.param_keys([parameter])))
            return original(module, parameter)
        return zero3probe_register
    for home in ("parameter_offload", "stage3"):
        module = sys.modules.get("deepspeed.runtime.zero." + home)
        if module is not None and hasattr(module, "register_external_parameter"):
            tap.wrap(module, "register_external_parameter", make)
