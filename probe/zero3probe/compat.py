"""What an old DeepSpeed needs on a machine without a GPU: the one compatibility module.

Releases up to v0.14.4 run on torch 1.13, and talk to torch.cuda as if a GPU were always there. Each shim below does
on the CPU what such a release asks for, and says which releases need it. DeepSpeed's own files stay as they are.
From v0.14.5 on, and wherever there is a GPU, nothing is shimmed.
"""
import collections
import collections.abc
import fractions
import importlib.metadata
import math
import os
import re
import sys
import types
from dataclasses import dataclass
from typing import Any, Callable, List, Optional, Tuple

Release = Tuple[int, int, int]

# Releases that are known to run on a CPU with the shims below; later ones need none.
_KNOWN_OLD: Tuple[Tuple[Release, Release], ...] = (((0, 3, 16), (0, 12, 0)), ((0, 13, 2), (0, 14, 4)))
FIRST_WITHOUT_SHIMS: Release = (0, 14, 5)
FIRST_WITH_ZERO3: Release = (0, 3, 12)


class Unavailable(Exception):
    """DeepSpeed cannot be used in this interpreter; the text says why, in one line."""


@dataclass(frozen=True)
class Shim:
    """One gap between an old release and a CPU. `before_import` of deepspeed, or after it."""
    name: str
    first: Release
    last: Release
    apply: Callable[[], None]
    before_import: bool = True


def release_text(release: Release) -> str:
    return ".".join(str(part) for part in release)


def installed_release() -> Release:
    """The release of the installed DeepSpeed, without importing it. Raises Unavailable."""
    try:
        version = importlib.metadata.version("deepspeed")
    except importlib.metadata.PackageNotFoundError:
        raise Unavailable("there is no DeepSpeed in %s" % sys.executable) from None
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    if match is None:
        raise Unavailable("DeepSpeed's version is %s: no release that is known" % version)
    first, second, third = (int(part) for part in match.groups())
    return first, second, third


def shims_for(release: Release, has_gpu: bool) -> List[Shim]:
    """What the release needs here. Raises Unavailable for one that nobody knows to run."""
    if release < FIRST_WITH_ZERO3:
        raise Unavailable("DeepSpeed %s has no ZeRO-3: that came with %s"
                          % (release_text(release), release_text(FIRST_WITH_ZERO3)))
    if has_gpu or release >= FIRST_WITHOUT_SHIMS:
        return []
    if not any(first <= release <= last for first, last in _KNOWN_OLD):
        known = ", ".join("%s - %s" % (release_text(first), release_text(last)) for first, last in _KNOWN_OLD)
        raise Unavailable("DeepSpeed %s is not known to run without a GPU; %s and those from %s on are"
                          % (release_text(release), known, release_text(FIRST_WITHOUT_SHIMS)))
    return [shim for shim in SHIMS if shim.first <= release <= shim.last]


def has_gpu() -> bool:
    """Whether torch sees a GPU; leaves CUDA unstarted: ranks are forked later. Raises Unavailable."""
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    try:
        import torch
    except ImportError as error:
        raise Unavailable("torch does not import in %s: %s" % (sys.executable, error)) from None
    return torch.version.cuda is not None and torch.cuda.is_available()


def old_names() -> None:
    """Names that Python dropped since: collections.Mapping and its siblings."""
    for name in ("Mapping", "MutableMapping", "Sequence", "Iterable", "Callable", "Set", "MutableSequence",
                 "Hashable", "Iterator"):
        if not hasattr(collections, name):
            setattr(collections, name, getattr(collections.abc, name))


def old_gcd() -> None:
    """fractions.gcd, gone since Python 3.9."""
    if not hasattr(fractions, "gcd"):
        fractions.gcd = math.gcd  # type: ignore[attr-defined]


class _Nothing:
    """A context that does nothing: a device, a stream's scope."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __enter__(self) -> "_Nothing":
        return self

    def __exit__(self, *error: Any) -> bool:
        return False


class _Event:
    """A CUDA event on the CPU, where everything has already happened."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def record(self, *args: Any) -> None:
        pass

    wait = synchronize = record

    def query(self) -> bool:
        return True

    def elapsed_time(self, other: Any) -> float:
        return 0.0


class _Stream(_Nothing):
    """A CUDA stream on the CPU: work is done when its call returns."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        import torch
        self.device = torch.device("cpu")

    def wait_stream(self, *args: Any) -> None:
        pass

    wait_event = synchronize = wait_stream

    def query(self) -> bool:
        return True

    def record_event(self, event: Optional[_Event] = None) -> _Event:
        return event or _Event()


def cuda_runtime() -> None:
    """torch.cuda: one device, streams and events that need no waiting, counters that stay at 0."""
    import torch
    cuda = torch.cuda
    torch.version.cuda = "11.7"
    os.environ.setdefault("CUDA_HOME", "/usr")
    stream = _Stream()
    memory = 1 << 34  # bytes
    properties = types.SimpleNamespace(total_memory=memory, name="cpu", major=8, minor=0,
                                       multi_processor_count=1)
    answers = [
        (None, ("synchronize", "set_device", "empty_cache", "init", "_lazy_init", "reset_peak_memory_stats",
                "reset_max_memory_allocated", "reset_max_memory_cached", "ipc_collect", "manual_seed",
                "manual_seed_all", "set_rng_state", "seed", "seed_all")),
        (0, ("current_device", "memory_allocated", "memory_reserved", "memory_cached", "max_memory_allocated",
             "max_memory_reserved", "max_memory_cached", "initial_seed")),
        (1, ("device_count",)),
        (True, ("is_available", "is_initialized", "is_bf16_supported")),
        (stream, ("current_stream", "default_stream")),
        (properties, ("get_device_properties",)),
        ((8, 0), ("get_device_capability",)),
        ("cpu", ("get_device_name",)),
        ((memory, memory), ("mem_get_info",)),
    ]
    for answer, names in answers:
        for name in names:
            setattr(cuda, name, lambda *args, _answer=answer, **kwargs: _answer)
    cuda.Stream, cuda.Event, cuda.StreamContext, cuda.device = _Stream, _Event, _Nothing, _Nothing
    cuda.stream = lambda stream: _Nothing()
    cuda.memory_stats = lambda *args, **kwargs: collections.defaultdict(int)
    cuda.get_rng_state = lambda *args, **kwargs: torch.get_rng_state()
    cuda.get_arch_list = lambda: []
    cuda.nvtx = types.SimpleNamespace(range_push=lambda *a: 0, range_pop=lambda *a: 0, mark=lambda *a: 0)
    sys.modules["torch.cuda.nvtx"] = cuda.nvtx
    for name in ("Float", "Half", "BFloat16", "Byte", "Int", "Long", "Double", "Short", "Char", "Bool"):
        make = getattr(torch, name + "Tensor")
        setattr(cuda, name + "Tensor", lambda *args, _make=make, **kwargs: _make(*args))


def _on_cpu(device: Any) -> Any:
    """A device argument with the CPU in the place of a GPU."""
    import torch
    if isinstance(device, int) and not isinstance(device, bool):
        return torch.device("cpu")
    if isinstance(device, str) and device.startswith("cuda"):
        return torch.device("cpu")
    if isinstance(device, torch.device) and device.type == "cuda":
        return torch.device("cpu")
    return device


def _names_device(value: Any) -> bool:
    import torch
    return isinstance(value, (str, torch.device)) or (isinstance(value, int) and not isinstance(value, bool))


def _with_cpu(function: Callable) -> Callable:
    """The function with its `device` on the CPU."""
    def on_cpu(*args: Any, **kwargs: Any) -> Any:
        if "device" in kwargs:
            kwargs["device"] = _on_cpu(kwargs["device"])
        return function(*args, **kwargs)
    on_cpu.__name__ = getattr(function, "__name__", "on_cpu")
    return on_cpu


def _moves_to_cpu(function: Callable) -> Callable:
    """`to` of a tensor or module: a first argument that names a GPU means the CPU."""
    def moved(self: Any, *args: Any, **kwargs: Any) -> Any:
        if args and _names_device(args[0]):
            args = (_on_cpu(args[0]),) + args[1:]
        return function(self, *args, **kwargs)
    return _with_cpu(moved)


def cuda_devices() -> None:
    """Device arguments that name a GPU mean the CPU, in every factory function, in `to`, in torch.load."""
    import torch
    for name in ("empty", "zeros", "ones", "full", "tensor", "arange", "rand", "randn", "randint", "linspace",
                 "as_tensor", "empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like",
                 "eye", "randperm", "empty_strided", "scalar_tensor"):
        setattr(torch, name, _with_cpu(getattr(torch, name)))
    tensor, module = torch.Tensor, torch.nn.Module
    for name in ("new_empty", "new_zeros", "new_ones", "new_full", "new_tensor"):
        setattr(tensor, name, _with_cpu(getattr(tensor, name)))
    tensor.to, module.to = _moves_to_cpu(tensor.to), _moves_to_cpu(module.to)
    for owner, name in ((tensor, "cuda"), (tensor, "pin_memory"), (module, "cuda")):
        setattr(owner, name, lambda self, *args, **kwargs: self)
    tensor.is_pinned = lambda self, *args, **kwargs: True
    tensor.record_stream = lambda self, *args: None
    type_of = tensor.type

    def cuda_type(self: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        if dtype is None and not args:
            return type_of(self).replace("torch.", "torch.cuda.")
        if isinstance(dtype, str):
            dtype = dtype.replace("torch.cuda.", "torch.")
        return type_of(self, dtype, *args, **kwargs)
    tensor.type = cuda_type
    load = torch.load

    def load_on_cpu(file: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        return load(file, _on_cpu(map_location), *args, **kwargs)
    torch.load = load_on_cpu


class _Done:
    """The work of a collective that is over when its call returns."""

    def wait(self, *args: Any) -> bool:
        return True

    is_completed = synchronize = wait

    def get_future(self) -> Any:
        import torch
        future = torch.futures.Future()
        future.set_result([])
        return future


def gloo_collectives() -> None:
    """What gloo of torch 1.13 has not: all_gather into one tensor or of no elements, reduce_scatter."""
    import torch.distributed as dist
    gather_list = dist.all_gather

    def all_gather(tensor_list: List[Any], tensor: Any, group: Any = None, async_op: bool = False) -> Any:
        if tensor.numel() > 0:
            return gather_list(tensor_list, tensor, group=group, async_op=async_op)
        return dist.all_reduce(tensor.detach().clone(), group=group, async_op=async_op)

    def all_gather_base(output_tensor: Any, input_tensor: Any, group: Any = None,
                        async_op: bool = False) -> Any:
        output, world = output_tensor.view(-1), dist.get_world_size(group)
        if world == 1:
            output.copy_(input_tensor.reshape(-1))
        else:
            all_gather(list(output.chunk(world)), input_tensor.reshape(-1).contiguous(), group=group)
        return _Done() if async_op else None

    def reduce_scatter_base(output: Any, input: Any, op: Any = dist.ReduceOp.SUM, group: Any = None,
                            async_op: bool = False) -> Any:
        world, whole = dist.get_world_size(group), input.reshape(-1).clone()
        if world > 1:
            dist.all_reduce(whole, op=op, group=group)
        output.view(-1).copy_(whole.chunk(world)[dist.get_rank(group)])
        return _Done() if async_op else None

    def reduce_scatter(output: Any, input_list: List[Any], op: Any = dist.ReduceOp.SUM, group: Any = None,
                       async_op: bool = False) -> Any:
        rank, world = dist.get_rank(group), dist.get_world_size(group)
        for i in range(world):
            part = input_list[i].clone()
            if world > 1:
                dist.all_reduce(part, op=op, group=group)
            if i == rank:
                output.copy_(part.view_as(output))
        return _Done() if async_op else None
    for home in (dist, dist.distributed_c10d):
        home._all_gather_base = home.all_gather_into_tensor = all_gather_base
        home._reduce_scatter_base = home.reduce_scatter_tensor = reduce_scatter_base
        home.all_gather, home.reduce_scatter = all_gather, reduce_scatter


def nccl_is_gloo() -> None:
    """A process group on nccl is one on gloo."""
    import torch.distributed as dist
    start, make = dist.init_process_group, dist.new_group

    def init_process_group(backend: Optional[str] = None, *args: Any, **kwargs: Any) -> Any:
        return start("gloo", *args, **kwargs)

    def new_group(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("backend") == "nccl":
            kwargs["backend"] = "gloo"
        return make(*args, **kwargs)
    dist.init_process_group, dist.new_group = init_process_group, new_group


def flatten_op() -> None:
    """The JIT-built flatten and unflatten: torch's own."""
    import torch
    from deepspeed.ops.op_builder import UtilsBuilder
    ops = types.SimpleNamespace(flatten=torch._utils._flatten_dense_tensors,
                                unflatten=torch._utils._unflatten_dense_tensors)
    UtilsBuilder.load = lambda self, *args, **kwargs: ops


_LAST_OLD: Release = (0, 14, 4)
SHIMS: Tuple[Shim, ...] = (
    Shim("collections.Mapping", (0, 3, 16), (0, 6, 1), old_names),
    Shim("fractions.gcd", (0, 3, 16), _LAST_OLD, old_gcd),
    Shim("torch.cuda", (0, 3, 16), _LAST_OLD, cuda_runtime),
    Shim("devices", (0, 3, 16), _LAST_OLD, cuda_devices),
    Shim("gloo collectives", (0, 3, 16), _LAST_OLD, gloo_collectives),
    Shim("nccl", (0, 3, 16), _LAST_OLD, nccl_is_gloo),
    Shim("UtilsBuilder", (0, 3, 16), (0, 9, 4), flatten_op, before_import=False),
)
