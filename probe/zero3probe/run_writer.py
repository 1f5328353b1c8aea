"""Writes the run file of docs/run-format.md, line by line or whole. Needs the standard library alone."""
import json
from typing import Any, Dict, IO, List, Optional

from zero3probe.run import Call, External, Flow, Module, Op, Param, Raised, Run, Tensors

FORMAT = "zero3sim-run"
VERSION = 1
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode  # json.dumps makes one a call


def dumps(item: Any) -> str:
    """One line of a run or trace file: compact, UTF-8 as it is, no newline inside."""
    return _encode(item)


def write_run(run: Run, stream: IO[str]) -> None:
    """Writes a run; one that is `partial` without its last line."""
    stream.write(dumps(header_of(run)) + "\n")
    known_plans = 0
    for rank, program in enumerate(run.programs):
        first = next(i for i, other in enumerate(run.programs) if other is program or other == program)
        if first < rank:
            stream.write(dumps({"rank": rank, "same_as": first}) + "\n")
            continue
        if not program:
            stream.write(dumps({"rank": rank}) + "\n")
        for statement in program:
            for op in statement.ops:
                while op.plan is not None and op.plan >= known_plans:
                    calls = [call_item(call) for call in run.plans[known_plans]]
                    stream.write(dumps(plan_item(known_plans, calls, run.root_flows.get(known_plans))) + "\n")
                    known_plans += 1
            stream.write(dumps({"rank": rank, "text": statement.text,
                                "ops": [op_item(op) for op in statement.ops]}) + "\n")
        for raised in run.raised.get(rank, ()):
            stream.write(dumps(raised_item(rank, raised)) + "\n")
    if not run.partial:
        stream.write(dumps({"end": True}) + "\n")


def plan_item(number: int, calls: List[Any], root: Optional[Flow]) -> Dict[str, Any]:
    """The line of a plan; `calls` as call_item makes them, `root` of a recorded one."""
    item: Dict[str, Any] = {"plan": number}
    if root is not None:
        item["root"] = _flow_item(root)
    item["calls"] = calls
    return item


def raised_item(rank: int, raised: Raised) -> Dict[str, Any]:
    """The line of what a recorded run raised."""
    item = {"statement": raised.statement, "exception": raised.exception, "text": raised.text}
    return {"rank": rank, "raised": dict(item, path=raised.path) if raised.path else item}


def header_of(run: Run) -> Dict[str, Any]:
    """The first line."""
    header = {"format": FORMAT, "version": VERSION, "name": run.name, "ranks": run.ranks, "seed": run.seed,
              "input_requires_grad": run.input_requires_grad, "deepspeed_config": run.deepspeed_config,
              "engines": [{"root": engine.root, "optimizer": engine.optimizer} for engine in run.engines],
              "modules": [_module_item(module) for module in run.modules]}
    if run.recorded is not None:
        header["recorded"] = run.recorded
    return header


def _module_item(module: Module) -> Dict[str, Any]:
    item: Dict[str, Any] = {"name": module.name, "type": module.type}
    if module.qualified_type:
        item["class"] = module.qualified_type
    if module.params:
        item["params"] = [_param_item(param) for param in module.params]
    if module.children:
        item["children"] = [list(child) for child in module.children]
    if module.externals:
        item["externals"] = [_external_item(external) for external in module.externals]
    if module.outputs != 1:
        item["outputs"] = module.outputs
    if module.leaf:
        item["leaf"] = True
    return item


def _external_item(external: External) -> Dict[str, Any]:
    item: Dict[str, Any] = {"param": list(external.param)}
    if external.registered:
        item["registered"] = True
    return item


def _param_item(param: Param) -> Dict[str, Any]:
    if param.same_as is not None:
        return {"name": param.name, "same_as": list(param.same_as)}
    item: Dict[str, Any] = {"name": param.name, "shape": list(param.shape)}
    if not param.requires_grad:
        item["requires_grad"] = False
    return item


def _flow_item(flow: Optional[Flow]) -> Dict[str, Any]:
    item: Dict[str, Any] = {}
    if flow is None:
        return item
    for key, tensors in (("in", flow.inputs), ("out", flow.outputs)):
        if tensors != Tensors():
            item[key] = list(tensors if any(tensors[2:]) else tensors[:2])
    for key, count in (("first_in", flow.first_inputs), ("first_out", flow.first_outputs)):
        if count != (0, 0):
            item[key] = list(count if count[1] else count[:1])
    return item


def call_item(call: Call) -> Any:
    """A call of a plan's line."""
    if call.read is not None:
        return {"read": list(call.read)}
    if call.stop:
        return {"stop": True}
    calls = [call_item(inner) for inner in call.calls]
    flow = _flow_item(call.flow)
    if call.region is not None:
        return dict({"region": call.region, "calls": calls}, **flow)
    if call.checkpoint is None and not call.detach and not call.discard and not flow:
        return [call.module, calls] if calls else call.module
    item: Dict[str, Any] = {"module": call.module}
    if calls:
        item["calls"] = calls
    if call.checkpoint is not None:
        item["checkpoint"] = call.checkpoint
    if call.detach:
        item["detach"] = True
    if call.discard:
        item["discard"] = True
    item.update(flow)
    return item


def op_item(op: Op) -> Dict[str, Any]:
    """An op of a statement's line."""
    item: Dict[str, Any] = {"op": op.op}
    if op.engine:
        item["engine"] = op.engine
    if op.plan is not None:
        item["plan"] = op.plan
    for key, value, default in (("grad", op.grad, True), ("direct", op.direct, False),
                                ("overflow", op.overflow, False), ("module", op.module, None)):
        if value != default:
            item[key] = value
    if op.op == "gather":
        item["params"] = [list(ref) for ref in op.params]
        if op.modifier_rank is not None:
            item["modifier_rank"] = op.modifier_rank
    return item
