"""A run's operations as calls on the installed DeepSpeed: engines, contexts, each release's names."""
import os
import types
from typing import Any, Dict, List

import torch

from zero3probe import settings
from zero3probe.compat import Release
from zero3probe.installed import Installed
from zero3probe.model import Model, joined
from zero3probe.refusal import CannotRun
from zero3probe.run import Op, Run

_FIRST_CONFIG: Release = (0, 6, 6)  # deepspeed.initialize(config=...) without args


class Engines:
    """The engines of one rank, and what is open on each. Every method raises what DeepSpeed raises."""

    def __init__(self, run: Run, rank: int, installed: Installed, folder: str) -> None:
        import deepspeed
        self._deepspeed = deepspeed
        self._run = run
        self._rank = rank
        self._installed = installed
        self._folder = folder  # for checkpoints; the same on all ranks
        self._device = torch.device("cuda", rank) if installed.on_gpu else torch.device("cpu")
        self._dtype = torch.float16 if run.deepspeed_config.get("fp16", {}).get("enabled") else torch.float32
        self._check_computes()
        self.model = Model(run)
        self._program = run.programs[rank]
        self._outputs: List[Any] = [None] * len(run.engines)
        self._saved = [0] * len(run.engines)  # checkpoints, by engine: each has its own folder
        self._contexts: List[List[Any]] = [[] for _ in run.engines]
        self.model_device()
        self._prepare_model()
        self.engines = [self._initialize(index) for index in range(len(run.engines))]

    def _check_computes(self) -> None:
        try:
            torch.nn.functional.linear(torch.ones(1, 1, device=self._device, dtype=self._dtype),
                                       torch.ones(1, 1, device=self._device, dtype=self._dtype))
        except RuntimeError as error:
            raise CannotRun("fp16 on torch %s: %s" % (torch.__version__, error)) from None

    def model_device(self) -> None:
        """Moves the model where the rank computes."""
        if self._installed.on_gpu:
            for module in self.model.modules:
                module.to(self._device)

    def parameters(self) -> List[torch.nn.Parameter]:
        """Of the first engine's model, in its order: those whose statuses a trace shows."""
        return list(self.model.modules[self._run.engines[0].root].parameters())

    def _prepare_model(self) -> None:
        for made, module in zip(self.model.modules, self._run.modules):
            for external in module.externals:
                if external.registered:
                    self._deepspeed.zero.register_external_parameter(made, self.model.param(external.param))
            if module.leaf:
                self._set_leaf(made)

    def _set_leaf(self, module: torch.nn.Module) -> None:
        try:
            from deepspeed.utils import z3_leaf_module
        except ImportError:
            raise CannotRun("DeepSpeed %s has no leaf modules" % self._installed.version) from None
        if hasattr(z3_leaf_module, "set_z3_leaf_module"):
            z3_leaf_module.set_z3_leaf_module(module, True)
        else:
            module._z3_leaf = True

    def _initialize(self, index: int) -> Any:
        root = self.model.modules[self._run.engines[index].root]
        config = settings.deepspeed_config(self._run, self._installed.release)
        wanted: Dict[str, Any] = {"model": root}
        if self._run.engines[index].optimizer:
            trained = [param for param in root.parameters() if param.requires_grad]
            offloads = any(op.op == "offload_states" for statement in self._program for op in statement.ops)
            wanted.update(optimizer=settings.make_optimizer(trained, offloads), model_parameters=trained)
        if self._installed.release < _FIRST_CONFIG:
            wanted.update(args=types.SimpleNamespace(local_rank=self._rank), config_params=config)
        else:
            wanted.update(config=config)
        if self._installed.release < (0, 14, 5):
            wanted.update(dist_init_required=False)
        return self._deepspeed.initialize(**wanted)[0]

    def do(self, op: Op, statement: int, position: int) -> None:
        """One operation of the rank's statement, which stands at `position` in it."""
        getattr(self, "_do_" + op.op)(op, self.engines[op.engine], (statement, position))

    def _do_forward(self, op: Op, engine: Any, place: Any) -> None:
        value = torch.ones(settings.MICRO_BATCH, 8, device=self._device, dtype=self._dtype)
        if self._run.input_requires_grad:
            value.requires_grad_(True)
        plan = self._run.plans[op.plan]
        with torch.set_grad_enabled(op.grad):
            if op.direct:
                self.model.forward.call_in_turn(plan, value)
                return
            output = self.model.forward.call(engine, plan, value)
        if op.grad:
            self._outputs[op.engine] = output

    def _do_backward(self, op: Op, engine: Any, place: Any) -> None:
        output = self._outputs[op.engine]
        loss = torch.ones((), device=self._device) if output is None else joined(output).float().mean()
        if self._overflows(op.engine, place):
            loss = loss * float("inf")
        engine.backward(loss)

    def _overflows(self, index: int, place: Any) -> bool:
        """Whether the step that ends the engine's accumulation cycle is one whose gradients overflowed."""
        engine = self.engines[index]
        micro_step = engine.micro_steps
        for number, statement in enumerate(self._program[place[0]:]):
            for op in statement.ops[place[1] + 1 if number == 0 else 0:]:
                if op.op != "step" or op.engine != index:
                    continue
                micro_step += 1
                if micro_step % engine.gradient_accumulation_steps() == 0:
                    return op.overflow
        return False

    def _do_step(self, op: Op, engine: Any, place: Any) -> None:
        engine.step()

    def _do_train(self, op: Op, engine: Any, place: Any) -> None:
        (engine if op.module is None else self.model.modules[op.module]).train()

    def _do_eval(self, op: Op, engine: Any, place: Any) -> None:
        (engine if op.module is None else self.model.modules[op.module]).eval()

    def _do_save_16bit_model(self, op: Op, engine: Any, place: Any) -> None:
        save = getattr(engine, "save_16bit_model", None) or engine.save_fp16_model
        save(self._folder, "weights.bin")

    def _do_consolidated_16bit_state_dict(self, op: Op, engine: Any, place: Any) -> None:
        name = "_zero3_consolidated_16bit_state_dict"
        consolidate = getattr(engine, name, None) or getattr(engine, name.replace("16bit", "fp16"))
        consolidate()

    def _do_save_checkpoint(self, op: Op, engine: Any, place: Any) -> None:
        self._saved[op.engine] += 1
        engine.save_checkpoint(self._checkpoints(op), tag="step%d" % self._saved[op.engine])

    def _do_load_checkpoint(self, op: Op, engine: Any, place: Any) -> None:
        tag = "step%d" % max(self._saved[op.engine], 1)  # before any save, that of an earlier job (ranks.py)
        if not os.path.isdir(os.path.join(self._checkpoints(op), tag)):  # DeepSpeed would warn, and load nothing
            raise CannotRun("load_checkpoint finds no checkpoint")
        engine.load_checkpoint(self._checkpoints(op), tag=tag)

    def _checkpoints(self, op: Op) -> str:
        return os.path.join(self._folder, "engine%d" % op.engine)

    def _do_empty_partition_cache(self, op: Op, engine: Any, place: Any) -> None:
        engine.empty_partition_cache()

    def _do_offload_states(self, op: Op, engine: Any, place: Any) -> None:
        engine.offload_states()

    def _do_reload_states(self, op: Op, engine: Any, place: Any) -> None:
        engine.reload_states()

    def _do_register_hooks_again(self, op: Op, engine: Any, place: Any) -> None:
        """What unwrap_model_for_generation does around its body, without gathering."""
        offload = getattr(engine.optimizer, "parameter_offload", engine.optimizer)
        if not hasattr(offload, "forward_hooks"):
            raise CannotRun("DeepSpeed %s cannot take its hooks off" % self._installed.version)
        for hook in list(offload.forward_hooks) + list(offload.backward_hooks):
            hook.remove()
        offload.forward_hooks, offload.backward_hooks = [], []
        register = getattr(offload, "_register_deepspeed_module", None) or offload._register_hooks_recursively
        register(offload.module)

    def _do_gather(self, op: Op, engine: Any, place: Any) -> None:
        params = [self.model.param(ref) for ref in op.params]
        self._enter(op, self._deepspeed.zero.GatheredParameters(params, modifier_rank=op.modifier_rank))

    def _do_unwrap(self, op: Op, engine: Any, place: Any) -> None:
        unwrap = getattr(self._deepspeed, "unwrap_model_for_generation", None)
        if unwrap is None:
            from deepspeed.runtime.zero import unwrap_model_for_generation as unwrap
        self._enter(op, unwrap(engine))

    def _enter(self, op: Op, context: Any) -> None:
        context.__enter__()
        self._contexts[op.engine].append(context)

    def _leave(self, op: Op, engine: Any, place: Any) -> None:
        self._contexts[op.engine].pop().__exit__(None, None, None)

    _do_gather_exit = _leave
    _do_unwrap_exit = _leave

