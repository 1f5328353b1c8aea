"""Real DeepSpeed's fetch_sub_module in several threads, of which one at a time takes one step.

A step is what zero3sim races calls one: from one access to what the threads share up to the next. Each
access stops its thread until it is given its turn; what the access is (`recheck`, `launch`, ...) is told from
DeepSpeed's own function that makes it. An access that nobody foresaw is an error, so that a release whose
steps are not the model's is noticed.
Patches classes of the running process: one leaf a process.
"""
import linecache
import sys
import threading
from typing import Any, Callable, Dict, List, Optional, Tuple

_COORDINATOR = "_PartitionedParameterCoordinator__"
_FETCH = ("fetch_sub_module", "_fetch_sub_module_impl")
_GATHER = ("all_gather_coalesced", "_no_gather_coalesced")
# In Python before 3.12 a comprehension has a frame of its own.
_COMPREHENSIONS = ("<listcomp>", "<genexpr>")
_PATIENCE = 60.0  # seconds for one step

Pending = Tuple[str, Optional[str]]  # the step that a thread waits to take: action, name of the param


class NotForeseen(BaseException):
    """DeepSpeed does something between two steps that no step of the model is."""


class Thread:
    """One thread: `pending` is its next step; None once it has ended, with or without `error`."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.pending: Optional[Pending] = None
        self.error: Optional[BaseException] = None
        self.text = ""  # str(error), made where it was caught
        self.waited_for: Optional[threading.Event] = None
        self.locked = False
        self._work = work
        self._go = threading.Semaphore(0)
        self._stopped = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.zero3_turns = self  # type: ignore[attr-defined]

    def turn(self, action: str, param: Optional[str] = None) -> None:
        """Called by the thread itself before a step: returns when the step is given."""
        self.pending = (action, param)
        self._stopped.release()
        self._go.acquire()

    def step(self) -> None:
        """Lets it take its pending step, up to the next one. Raises NotForeseen if it never stops."""
        self._go.release()
        self._await()

    def runnable(self) -> bool:
        """Whether it has a step that it can take."""
        return self.pending is not None and (self.waited_for is None or self.waited_for.is_set())

    def _await(self) -> None:
        if not self._stopped.acquire(timeout=_PATIENCE):
            raise NotForeseen("a thread did not end its step within %g s" % _PATIENCE)

    def _run(self) -> None:
        self._go.acquire()
        try:
            self._work()
        except BaseException as error:  # NotForeseen too: told by the one who steps
            self.error, self.text = error, str(error)
        self.pending = None
        self._stopped.release()

    def begin(self) -> None:
        """Starts it and brings it to its first step."""
        self._thread.start()
        self.step()


def running() -> Optional[Thread]:
    """The thread of a race that calls; None: any other thread."""
    return getattr(threading.current_thread(), "zero3_turns", None)


class Leaf:
    """A leaf module of an engine: its params, with every access to them made in turns."""

    def __init__(self, offload: Any, module: Any, names: Dict[int, str]) -> None:
        from deepspeed.runtime.zero import partitioned_param_coordinator
        self.params = list(module.parameters())
        self.gathers = 0
        self._names = names
        self._offload = offload
        self._module = module
        self._coordinator = _coordinator(offload)
        self._works: List[Any] = []  # collectives that were launched
        self.registry = getattr(self._coordinator, _COORDINATOR + "inflight_param_registry")
        self.registry.data = _SharedDict({}, self._name)
        _sets_in_order(partitioned_param_coordinator)
        _share_lock(partitioned_param_coordinator, self._coordinator)
        _watch_launches(self._works)
        for param in self.params:
            self._share(param)

    def partition(self) -> None:
        """As before the first step: whatever a race left is dropped, once its collectives have ended."""
        import torch
        for work in self._works:
            work.wait()
        self._works.clear()
        self.registry.data = _SharedDict({}, self._name)
        for param in self.params:
            param.ds_status = type(param.ds_status).NOT_AVAILABLE
            param.ds_active_sub_modules.clear()
            param.data = torch.empty(0, dtype=param.dtype, device=param.device)
        self.gathers = 0

    def prefetch(self) -> None:
        """Launches the gather of all its params, as a prefetch does."""
        getattr(self._coordinator, _COORDINATOR + "all_gather_params")(self.params, False)
        self.gathers = 0

    def hook(self) -> None:
        """The pre-backward hook, in the thread that calls."""
        self._offload.pre_sub_module_backward_function(self._module)

    def step_id(self) -> int:
        return getattr(self._coordinator, _COORDINATOR + "step_id")

    def is_registered(self, param: Any) -> bool:
        return dict.__contains__(self.registry.data, param)

    def _name(self, param: Any) -> str:
        return self._names[id(param)]

    def _share(self, param: Any) -> None:
        name = self._name(param)
        param.zero3_name = name
        param.ds_active_sub_modules = _SharedSet(param.ds_active_sub_modules)
        param.ds_active_sub_modules.name = name
        summary, gather = param.ds_summary, param.all_gather_coalesced

        def ds_summary(*args: Any, **keys: Any) -> Any:
            _turn("summary", name)
            return summary(*args, **keys)

        def all_gather_coalesced(*args: Any, **keys: Any) -> Any:
            handle = gather(*args, **keys)
            self.gathers += 1
            return handle
        param.ds_summary = ds_summary
        param.all_gather_coalesced = all_gather_coalesced


class Race:
    """Threads that run a leaf's pre-backward hook, each before its first step."""

    def __init__(self, leaf: Leaf, threads: int, prefetched: bool) -> None:
        self._leaf = leaf
        self._taken_back = False
        leaf.partition()
        if prefetched:
            leaf.prefetch()
        self._first_step_id = leaf.step_id()
        self.threads = [Thread(leaf.hook) for _ in range(threads)]
        for thread in self.threads:
            thread.begin()

    def over(self) -> bool:
        """Whether an exception was raised or no thread can go on."""
        return any(thread.error for thread in self.threads) or not any(t.runnable() for t in self.threads)

    def step(self, number: int) -> None:
        """One step of a thread, counted from 0. Precondition: it is runnable. Raises NotForeseen."""
        thread = self.threads[number]
        becomes_inflight = thread.pending is not None and thread.pending[0] == "set-inflight"
        if becomes_inflight and any(other.pending is None for other in self.threads if other is not thread):
            self._taken_back = True
        thread.step()
        if isinstance(thread.error, NotForeseen):
            raise thread.error

    def end(self) -> str:
        """How the threads ended without an exception, as zero3sim races names it."""
        leaf = self._leaf
        counted = leaf.step_id() - self._first_step_id
        words = [("stuck", any(thread.pending is not None for thread in self.threads)),
                 ("gathered-twice", leaf.gathers > 1), ("taken-back", self._taken_back),
                 ("left-registered", any(leaf.is_registered(param) for param in leaf.params)),
                 ("left-in-flight", any(param.ds_status.name != "AVAILABLE" for param in leaf.params)),
                 ("step-uncounted", counted < len(self.threads))]
        return "+".join(word for word, is_so in words if is_so) or "completes"


def _watch_launches(works: List[Any]) -> None:
    """Keeps what every launch of an all-gather hands back."""
    from deepspeed.runtime.zero import partition_parameters
    launch = partition_parameters._dist_allgather_fn

    def _dist_allgather_fn(*args: Any, **keys: Any) -> Any:
        works.append(launch(*args, **keys))
        return works[-1]
    partition_parameters._dist_allgather_fn = _dist_allgather_fn


def _turn(action: str, param: Optional[str] = None) -> None:
    thread = running()
    if thread is not None:
        thread.turn(action, param)


def _coordinator(offload: Any) -> Any:
    try:
        return offload.get_param_coordinator(training=True)  # up to v0.15.3
    except TypeError:
        return offload.get_param_coordinator()


def _ordered(params: Any = ()) -> List[Any]:
    """A set in the order of arrival: DeepSpeed iterates over params as a set, in no order of its own."""
    return list(dict.fromkeys(params))


def _sets_in_order(source: Any) -> None:
    source.set = source.frozenset = _ordered


class _SharedSet(set):
    """ds_active_sub_modules."""
    name = ""

    def add(self, item: Any) -> None:
        _turn("activate", self.name)
        super().add(item)

    def __repr__(self) -> str:
        return repr(set(self))


class _SharedDict(dict):
    """What a registry (a UserDict) keeps its handles in. The UserDict's methods tell which access it is."""
    _LOOK_UPS = {"__setitem__": "look-up", "__contains__": "in-registry", "__getitem__": "take"}

    def __init__(self, items: Dict[Any, Any], name: Callable[[Any], str]) -> None:
        super().__init__(items)
        self._name = name

    def __contains__(self, param: Any) -> bool:
        if running() is not None:
            caller = sys._getframe(1).f_code.co_name
            if caller not in self._LOOK_UPS:
                raise NotForeseen("a look-up in the registry by %s" % caller)
            _turn(self._LOOK_UPS[caller], self._name(param))
        return super().__contains__(param)

    def __setitem__(self, param: Any, handle: Any) -> None:
        _turn("store", self._name(param))
        super().__setitem__(param, handle)

    def __delitem__(self, param: Any) -> None:
        _turn("delete", self._name(param))
        super().__delitem__(param)


def share_statuses(parameter: Any) -> None:
    """Makes ds_status of the class torch.nn.Parameter a property that is read and written in turns."""
    def read(param: Any) -> Any:
        if "zero3_status" not in param.__dict__:
            raise AttributeError("ds_status")
        if running() is not None and not _is_silent_read(sys._getframe(1)):
            _turn(_read_of(sys._getframe(1)), param.zero3_name)
        return param.__dict__["zero3_status"]

    def write(param: Any, status: Any) -> None:
        if running() is not None:
            caller = sys._getframe(1).f_code.co_name
            if caller not in _GATHER + ("wait",):
                raise NotForeseen("ds_status is written by %s" % caller)
            _turn("set-available" if caller == "wait" else "set-inflight", param.zero3_name)
        param.__dict__["zero3_status"] = status
    parameter.ds_status = property(read, write)


def _line(frame: Any) -> str:
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno)


def _function(frame: Any) -> str:
    while frame.f_code.co_name in _COMPREHENSIONS:
        frame = frame.f_back
    return frame.f_code.co_name


def _is_silent_read(frame: Any) -> bool:
    """A read that decides nothing: for a text, or the arguments of a message that is not printed."""
    if frame.f_code.co_name == "ds_summary":
        return True
    line = _line(frame)
    return _function(frame) in _FETCH and "partition_numel" not in line and "assert" not in line


def _read_of(frame: Any) -> str:
    function, line = _function(frame), _line(frame)
    if function in _FETCH:
        return "assert-available" if "assert" in line else "read-numel"
    if function == "__all_gather_params_":
        return "assert-inflight" if "assert" in line else "choose"
    of_function = {"__init__": "check-made", "__setitem__": "check-inflight", "wait": "assert-waited"}
    of_function.update((name, "recheck") for name in _GATHER)
    if function not in of_function:
        raise NotForeseen("ds_status is read by %s: %s" % (function, line.strip()))
    return of_function[function]


def share_handles(source: Any) -> None:
    """Handles of the module partition_parameters: launches, waits and completion in turns."""
    launch = source._dist_allgather_fn

    def _dist_allgather_fn(*args: Any, **keys: Any) -> Any:
        _turn("launch")
        return launch(*args, **keys)
    source._dist_allgather_fn = _dist_allgather_fn
    for single in (source.AllGatherHandle, source.NoGatherHandle):
        single.wait = _waited(single.wait)
    _share_completion(source.AllGatherCoalescedHandle, "complete")
    _share_completion(source.NoGatherCoalescedHandle, "_NoGatherCoalescedHandle__complete")


def _waited(wait: Callable[..., None]) -> Callable[..., None]:
    def in_turn(*args: Any, **keys: Any) -> None:
        _turn("wait")
        wait(*args, **keys)
    return in_turn


def _share_completion(handle_class: Any, name: str) -> None:
    def read(handle: Any) -> bool:
        _turn("wait")
        return handle.__dict__["zero3_complete"]

    def write(handle: Any, is_complete: bool) -> None:
        if is_complete:
            _turn("complete")
        handle.__dict__["zero3_complete"] = is_complete
    setattr(handle_class, name, property(read, write))


def _share_lock(source: Any, coordinator: Any) -> None:
    """From v0.18.6 one thread fetches a leaf and others wait for its event; nothing before."""
    attribute = _COORDINATOR + "leaf_module_lock"
    if not hasattr(coordinator, attribute):
        return
    setattr(coordinator, attribute, _TakenInTurns(getattr(coordinator, attribute)))
    threads = type(sys)("threading")  # the same module, with another Event
    threads.__dict__.update(threading.__dict__)
    threads.Event = _WaitedInTurns  # type: ignore[attr-defined]
    source.threading = threads


class _TakenInTurns:
    """The lock around the events: every thread takes it to enter, the fetching one once more to leave."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        thread = running()
        if thread is not None:
            thread.turn("leave-lock" if thread.locked else "enter-lock")
            thread.locked = True
        self._lock.acquire()

    def __exit__(self, *error: Any) -> None:
        self._lock.release()


class _WaitedInTurns(threading.Event):
    def wait(self, timeout: Optional[float] = None) -> bool:
        thread = running()
        if thread is None:
            return super().wait(timeout)
        thread.waited_for = self
        thread.turn("wait-event")
        return super().wait(_PATIENCE)
