"""Watches torch and DeepSpeed on a recorder's behalf: wraps what a script calls, changes nothing it sees.

What is wrapped: the call of every module, train(), checkpointed regions, deepspeed.initialize through the
engine's constructor (so names imported before and Hugging Face's Trainer are seen), its methods and contexts.
"""
import contextlib
import functools
import sys
from typing import Any, Callable

from zero3probe.record.recorder import NO_MODULE, Recorder
from zero3probe.record.regions import bind, watch_regions
from zero3probe.record.tape import RAISED, Tape, inputs_code, outputs_code
from zero3probe.run import Op

# Engine methods, with each release's own names, and the operation that each is.
_METHODS = {"backward": "backward", "step": "step", "save_16bit_model": "save_16bit_model",
            "save_fp16_model": "save_16bit_model",
            "_zero3_consolidated_16bit_state_dict": "consolidated_16bit_state_dict",
            "_zero3_consolidated_fp16_state_dict": "consolidated_16bit_state_dict",
            "save_checkpoint": "save_checkpoint", "load_checkpoint": "load_checkpoint",
            "empty_partition_cache": "empty_partition_cache", "offload_states": "offload_states",
            "reload_states": "reload_states"}


# Where hooks are registered: a class of its own since v0.6.6, the optimizer before.
_OWNERS_OF_HOOKS = ("DeepSpeedZeRoOffload", "DeepSpeedZeroOptimizer_Stage3",
                    "FP16_DeepSpeedZeroOptimizer_Stage3")


def _replace(owner: Any, name: str, make: Callable[[Callable], Callable]) -> None:
    original = getattr(owner, name)
    wrapper = make(original)
    functools.update_wrapper(wrapper, original)
    setattr(owner, name, wrapper)


def install(recorder: Recorder) -> None:
    """Wraps everything, in this process, until it ends. deepspeed is imported already."""
    import torch
    from deepspeed.runtime.engine import DeepSpeedEngine
    recorder.tensor = torch.Tensor
    recorder.executes = getattr(torch._C, "_will_engine_execute_node", None)
    _watch_modules(recorder)
    _watch_train(recorder)
    watch_regions(recorder)
    _watch_forward(recorder, DeepSpeedEngine)
    for name, op in _METHODS.items():
        if name in DeepSpeedEngine.__dict__:
            _watch_method(recorder, DeepSpeedEngine, name, op)
    _watch_construction(recorder, DeepSpeedEngine)
    _watch_contexts(recorder)
    _watch_reads(recorder)
    _watch_unwrap(recorder)
    _watch_plain_backward(recorder)


def _watch_plain_backward(recorder: Recorder) -> None:
    """loss.backward() of the script's own, which some releases take for the engine's and others do not."""
    import torch

    def make(original):
        def zero3probe_backward(self, *args, **kwargs):
            if recorder.depth == 0 and recorder.leads_to_engine(self):
                recorder.stop("loss.backward() without the engine cannot be recorded; engine.backward(loss) can")
            return original(self, *args, **kwargs)
        return zero3probe_backward
    _replace(torch.Tensor, "backward", make)


def _watch_modules(recorder: Recorder) -> None:
    """Every module call is here, in every step: what the usual one needs stands in line, and calls nothing."""
    import torch
    tensor, number_of, call_module = torch.Tensor, recorder.model.index.get, torch.nn.Module.__call__
    grad_enabled, none_returned, one_returned = torch.is_grad_enabled, outputs_code(0), outputs_code(1)

    def zero3probe_call(self, *args, **kwargs):
        number = number_of(id(self))
        if number is None:
            return call_module(self, *args, **kwargs)
        tape = recorder.tape
        if tape is None:
            return _first_call(recorder, zero3probe_call, self, args, kwargs)
        outer = recorder.running
        recorder.running, recorder.given = number, args
        tape.codes.append(number)
        if not grad_enabled():
            _take_inputs(recorder, tape)
        try:
            result = call_module(self, *args, **kwargs)
        except BaseException:
            if recorder.given is args:
                _take_inputs(recorder, tape)
            tape.codes.append(RAISED)
            raise
        finally:
            recorder.running = outer
        if recorder.given is args:
            _take_inputs(recorder, tape)
        if type(result) is not tensor:
            tape.outputs(result, tensor)
        elif result.requires_grad:
            tape.codes.append(one_returned)
            tape.nodes.append(result.grad_fn)
        else:
            tape.codes.append(none_returned)
        return result
    torch.nn.Module.__call__ = zero3probe_call


def _take_inputs(recorder: Recorder, tape: Tape) -> None:
    tape.inputs(recorder.given, recorder.tensor)
    recorder.given = None


def _first_call(recorder: Recorder, call: Callable, module: Any, args: Any, kwargs: Any) -> Any:
    """No module runs: an operation of its own, unless one of the engine or of DeepSpeed does."""
    import torch
    pending = None
    if recorder.depth == 0:
        pending = recorder.begin(Op("forward", grad=torch.is_grad_enabled(), direct=True))
        recorder.depth += 1
    recorder.tape = pending.tape if pending is not None else recorder.first_call()
    error = None
    try:
        return call(module, *args, **kwargs)
    except BaseException as raised:
        error = raised
        raise
    finally:
        recorder.tape, recorder.running, recorder.given = None, NO_MODULE, None
        if pending is not None:
            recorder.depth -= 1
            recorder.end(pending, error)


def _watch_train(recorder: Recorder) -> None:
    """Of the engines' models: it calls itself for every module below."""
    import torch
    train, roots = torch.nn.Module.train, recorder.roots

    def zero3probe_train(self, mode=True):
        result = train(self, mode)
        if id(self) in roots:
            for number in roots[id(self)]:
                recorder.set_training(number, bool(mode))
        return result
    torch.nn.Module.train = zero3probe_train


def input_hook(recorder: Recorder) -> Callable:
    """Runs after DeepSpeed's hooks before a forward: backward comes to what they made of the inputs."""
    import torch
    tensor, number_of, grad_enabled = torch.Tensor, recorder.model.index.get, torch.is_grad_enabled
    none_given, one_given = inputs_code(0), inputs_code(1)

    def zero3probe_inputs(module, args):
        tape = recorder.tape
        if tape is None or not grad_enabled() or number_of(id(module)) != recorder.running:
            return
        recorder.given = None
        if len(args) != 1 or type(args[0]) is not tensor:
            tape.inputs(args, tensor)
        elif args[0].requires_grad:
            tape.codes.append(one_given)
            tape.nodes.append(args[0].grad_fn)
        else:
            tape.codes.append(none_given)
    return zero3probe_inputs


def _watch_forward(recorder: Recorder, engine_class: Any) -> None:
    def make(original):
        def zero3probe_forward(self, *args, **kwargs):
            number = recorder.engine_of(self)
            if number < 0 or recorder.depth > 0:
                return original(self, *args, **kwargs)
            import torch
            pending = recorder.begin(Op("forward", number, grad=torch.is_grad_enabled()))
            recorder.current = pending
            return _run(recorder, pending, original, self, args, kwargs)
        return zero3probe_forward
    _replace(engine_class, "forward", make)


def _run(recorder, pending, original, self, args, kwargs, before_end=lambda: None):
    """The original inside one operation; `before_end` may complete that before it is written."""
    error = None
    recorder.depth += 1
    try:
        return original(self, *args, **kwargs)
    except BaseException as raised:
        error = raised
        raise
    finally:
        recorder.depth -= 1
        recorder.current = None
        before_end()
        recorder.end(pending, error)


def _watch_method(recorder: Recorder, engine_class: Any, name: str, op: str) -> None:
    def make(original):
        def zero3probe_method(self, *args, **kwargs):
            number = recorder.engine_of(self)
            if number < 0 or recorder.depth > 0:
                return original(self, *args, **kwargs)
            pending = recorder.begin(Op(op, number))
            if op == "backward":
                return _run_backward(recorder, pending, original, self, args, kwargs)
            skipped = getattr(self, "skipped_steps", 0)

            def mark_overflow():
                pending.op.overflow = op == "step" and getattr(self, "skipped_steps", 0) > skipped
            return _run(recorder, pending, original, self, args, kwargs, mark_overflow)
        return zero3probe_method
    _replace(engine_class, name, make)


def _run_backward(recorder, pending, original, self, args, kwargs):
    recorder.backward_begins(args[0] if args else kwargs.get("loss"))
    recorder.in_backward = True
    try:
        return _run(recorder, pending, original, self, args, kwargs)
    finally:
        recorder.in_backward = False


def _watch_construction(recorder: Recorder, engine_class: Any) -> None:
    """deepspeed.initialize ends in the constructor, whoever calls it under whatever name."""
    def make(original):
        def zero3probe_init(self, *args, **kwargs):
            recorder.depth += 1
            try:
                original(self, *args, **kwargs)
            finally:
                recorder.depth -= 1
            recorder.add_engine(self)
            _hook_inputs(recorder)
        return zero3probe_init
    _replace(engine_class, "__init__", make)
    known = []  # a class may be there under both modules
    for home in ("parameter_offload", "stage3"):
        module = sys.modules.get("deepspeed.runtime.zero." + home)
        for owner in _OWNERS_OF_HOOKS:
            made = getattr(module, owner, None)
            for name in ("_register_deepspeed_module", "_register_hooks_recursively"):
                if made is not None and made not in known and name in made.__dict__:
                    _watch_registration(recorder, made, name)
            known.append(made)


def _hook_inputs(recorder: Recorder) -> None:
    """Our hook on every module, after all others."""
    hook = getattr(recorder, "input_hook", None) or input_hook(recorder)
    recorder.input_hook = hook
    for module in recorder.model.objects:
        known = module.__dict__.get("_forward_pre_hooks")
        for key in [key for key, each in known.items() if each is hook]:
            del known[key]
        module.register_forward_pre_hook(hook)


def _watch_registration(recorder: Recorder, owner: Any, name: str) -> None:
    depth = []

    def make(original):
        def zero3probe_register(self, module, *args, **kwargs):
            again = not depth and any(engine.module is module for engine in recorder.engines)
            pending = recorder.begin(Op("register_hooks_again")) if again and recorder.depth == 0 else None
            depth.append(True)
            error = None
            try:
                return original(self, module, *args, **kwargs)
            except BaseException as raised:
                error = raised
                raise
            finally:
                depth.pop()
                if again:
                    _hook_inputs(recorder)
                if pending is not None:
                    recorder.end(pending, error)
        return zero3probe_register
    _replace(owner, name, make)


def _watch_contexts(recorder: Recorder) -> None:
    from deepspeed.runtime.zero import partition_parameters
    gathered = partition_parameters.GatheredParameters

    def make_enter(original):
        def zero3probe_enter(self):
            refs = _gathered(recorder, self)
            if recorder.depth > 0 or not refs or not recorder.engines:
                return original(self)
            rank = getattr(self, "src_rank", None)
            pending = recorder.begin(Op("gather", params=refs, modifier_rank=rank))
            self.zero3probe_recorded = True
            return _run(recorder, pending, original, self, (), {})
        return zero3probe_enter

    def make_exit(original):
        def zero3probe_exit(self, *exc):
            if not self.__dict__.pop("zero3probe_recorded", False):
                return original(self, *exc)
            return _run(recorder, recorder.begin(Op("gather_exit")), original, self, exc, {})
        return zero3probe_exit
    _replace(gathered, "__enter__", make_enter)
    _replace(gathered, "__exit__", make_exit)


def _watch_unwrap(recorder: Recorder) -> None:
    """unwrap_model_for_generation gathers all and takes the hooks off until its end."""
    original = getattr(sys.modules.get("deepspeed.runtime.zero.stage3"), "unwrap_model_for_generation", None)
    if original is None:
        return

    @contextlib.contextmanager
    def zero3probe_unwrap(engine):
        number = recorder.engine_of(engine)
        if number < 0 or recorder.depth > 0:
            with original(engine) as model:
                yield model
            return
        context = original(engine)
        enter, leave = type(context).__enter__, type(context).__exit__
        model = _run(recorder, recorder.begin(Op("unwrap", number)), enter, context, (), {})
        raised = (None, None, None)
        try:
            yield model
        except BaseException:
            raised = sys.exc_info()
        swallowed = _run(recorder, recorder.begin(Op("unwrap_exit", number)), leave, context, raised, {})
        if raised[1] is not None and not swallowed:
            raise raised[1]
    bind(original, functools.update_wrapper(zero3probe_unwrap, original))


def _gathered(recorder: Recorder, context: Any) -> list:
    params = getattr(context, "params", None)
    if params is None:
        params = [getattr(context, "param", None)]
    known = recorder.model.params
    return [known[id(param)] for param in params if id(param) in known]


def _watch_reads(recorder: Recorder) -> None:
    """DeepSpeed's dict of a module's parameters: a read by another module may gather the parameter."""
    owners, refs, everyone = recorder.model.owners, recorder.model.params, range(1 << 62)
    for home in ("parameter_offload", "stage3"):
        owner = getattr(sys.modules.get("deepspeed.runtime.zero." + home), "ZeROOrderedDict", None)
        if owner is None:
            continue

        def make(original):
            def zero3probe_getitem(self, key):
                param = original(self, key)
                if recorder.running >= 0 and recorder.running not in owners.get(id(param), everyone):
                    recorder.read(refs[id(param)])
                return param
            return zero3probe_getitem
        _replace(owner, "__getitem__", make)
        return
