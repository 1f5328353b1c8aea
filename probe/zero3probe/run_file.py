"""The run file of docs/run-format.md: reading it, with the line of whatever is wrong, and writing it.

Needs the standard library alone. A file that was cut is read up to the cut and marked `partial`.
"""
import json
from typing import Any, Callable, Dict, IO, Iterator, List, Optional

from zero3probe.run import (CHECKPOINTS, OPS, Call, Engine, External, Flow, Module, Op, Param, ParamRef,
                            Raised, Run, Statement, Tensors)

FORMAT = "zero3sim-run"
VERSION = 1


class BadRunFile(ValueError):
    """What is wrong with a run file; `str()` begins with `source:line:`."""

    def __init__(self, source: str, line: int, message: str) -> None:
        super().__init__("%s:%d: %s" % (source, line, message))
        self.line = line


def read_runs(stream: IO[str], source: str = "<stdin>") -> Iterator[Run]:
    """The runs of a text stream, each as soon as its last line is read. Raises BadRunFile."""
    reader = RunReader(stream, source)
    while True:
        run = reader.read()
        if run is None:
            return
        yield run


class RunReader:
    """Reads one run after the other. After BadRunFile, `skip_to_end` goes on with the next one."""

    def __init__(self, stream: IO[str], source: str = "<stdin>") -> None:
        self._stream = stream
        self._source = source
        self._line = 0

    def read(self) -> Optional[Run]:
        """The next run, or None at the end of the stream."""
        first = self._next_object()
        if first is None:
            return None
        run = self._in_line(lambda: _read_header(first))
        while True:
            item = self._next_object()
            if item is None:
                run.partial = True
                break
            if item.get("end") is True:
                break
            self._in_line(lambda: _read_line(run, item))
        self._in_line(lambda: _fill_ranks(run))
        return run

    def skip_to_end(self) -> None:
        """Passes over the rest of the run that BadRunFile was raised in."""
        for text in iter(self._stream.readline, ""):
            self._line += 1
            if text.strip().replace(" ", "") == '{"end":true}':
                return

    def _next_object(self) -> Optional[Dict[str, Any]]:
        while True:
            text = self._stream.readline()
            if text == "":
                return None
            self._line += 1
            if text.strip():
                break
        try:
            item = json.loads(text)
        except ValueError as error:
            if not text.endswith("\n"):
                return None  # the line that the cut went through
            raise self._error("not JSON: %s" % error) from None
        except RecursionError:
            raise self._error("nested too deep") from None
        if not isinstance(item, dict):
            raise self._error("a line is an object")
        return item

    def _in_line(self, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except _Wrong as wrong:
            raise self._error(str(wrong)) from None

    def _error(self, message: str) -> BadRunFile:
        return BadRunFile(self._source, self._line, message)


class _Wrong(Exception):
    """What is wrong in the line at hand."""


_REQUIRED = object()
_KINDS = {str: "a text", int: "a whole number", bool: "true or false", list: "a list", dict: "an object"}


class _Fields:
    """The keys of one object, each taken once; `done` refuses what is left."""

    def __init__(self, item: Any, what: str) -> None:
        if not isinstance(item, dict):
            raise _Wrong("%s is an object, not %s" % (what, json.dumps(item)[:40]))
        self._left = dict(item)
        self._what = what

    def take(self, key: str, kind: type, default: Any = _REQUIRED, least: Optional[int] = None) -> Any:
        if key not in self._left:
            if default is _REQUIRED:
                raise _Wrong("%s has no \"%s\"" % (self._what, key))
            return default
        value = self._left.pop(key)
        number_for_bool = kind is int and isinstance(value, bool)
        if not isinstance(value, kind) or number_for_bool or (least is not None and value < least):
            wanted = _KINDS[kind]
            limit = "" if least is None else " from %d" % least
            raise _Wrong("\"%s\" of %s is %s%s, not %s"
                         % (key, self._what, wanted, limit, json.dumps(value)[:40]))
        return value

    def done(self) -> None:
        if self._left:
            raise _Wrong("%s has the unknown key \"%s\"" % (self._what, next(iter(self._left))))


def _read_header(item: Dict[str, Any]) -> Run:
    fields = _Fields(item, "the first line")
    if item.get("format") != FORMAT:
        raise _Wrong('not a run file: its first line has "format": "%s"' % FORMAT)
    fields.take("format", str)
    version = fields.take("version", int)
    if version > VERSION:
        raise _Wrong("a run file of version %d; this program knows version %d" % (version, VERSION))
    run = Run(name=fields.take("name", str), ranks=fields.take("ranks", int, least=1),
              seed=fields.take("seed", int, 0),
              input_requires_grad=fields.take("input_requires_grad", bool, True),
              deepspeed_config=fields.take("deepspeed_config", dict),
              recorded=fields.take("recorded", dict, None))
    engines = fields.take("engines", list)
    modules = fields.take("modules", list)
    fields.done()
    if not modules or not engines:
        raise _Wrong("a run has modules and engines")
    run.modules = [_read_module(module, "module %d" % i, len(modules)) for i, module in enumerate(modules)]
    for module in run.modules:
        for ref in [p.same_as for p in module.params if p.same_as] + [e.param for e in module.externals]:
            _check_ref(run, ref)
    run.engines = [_read_engine(engine, len(modules)) for engine in engines]
    return run


def _read_engine(item: Any, modules: int) -> Engine:
    fields = _Fields(item, "an engine")
    engine = Engine(root=_index(fields.take("root", int), modules, "module"),
                    optimizer=fields.take("optimizer", bool, True))
    fields.done()
    return engine


def _read_module(item: Any, what: str, modules: int) -> Module:
    fields = _Fields(item, what)
    module = Module(name=fields.take("name", str), type=fields.take("type", str, "Module"),
                    outputs=fields.take("outputs", int, 1, least=1), leaf=fields.take("leaf", bool, False))
    module.qualified_type = fields.take("class", str, "")
    module.params = [_read_param(param, what) for param in fields.take("params", list, [])]
    for child in fields.take("children", list, []):
        if not (isinstance(child, list) and len(child) == 2 and isinstance(child[0], str)):
            raise _Wrong("a child of %s is [name, module]" % what)
        module.children.append((child[0], _index(child[1], modules, "module")))
    for external in fields.take("externals", list, []):
        external_fields = _Fields(external, "an external of %s" % what)
        module.externals.append(External(param=_ref(external_fields.take("param", list)),
                                         registered=external_fields.take("registered", bool, False)))
        external_fields.done()
    fields.done()
    return module


def _read_param(item: Any, what: str) -> Param:
    fields = _Fields(item, "a parameter of %s" % what)
    name = fields.take("name", str)
    same_as = fields.take("same_as", list, None)
    param = Param(name, same_as=None if same_as is None else _ref(same_as))
    if same_as is None:
        shape = fields.take("shape", list)
        if not all(type(extent) is int and extent >= 0 for extent in shape):
            raise _Wrong("the shape of %s of %s is a list of whole numbers" % (name, what))
        param.shape = tuple(shape)
        param.requires_grad = fields.take("requires_grad", bool, True)
    fields.done()
    return param


def _read_line(run: Run, item: Dict[str, Any]) -> None:
    if "plan" in item:
        fields = _Fields(item, "a plan")
        number = fields.take("plan", int)
        if number != len(run.plans):
            raise _Wrong("plan %d where plan %d is next" % (number, len(run.plans)))
        root = fields.take("root", dict, None)
        if root is not None:
            root_fields = _Fields(root, "the root of plan %d" % number)
            run.root_flows[number] = _read_flow(root_fields)
            root_fields.done()
        run.plans.append(_read_calls(fields.take("calls", list), run, root is not None))
        fields.done()
        return
    fields = _Fields(item, "a statement")
    rank = fields.take("rank", int, least=0)
    if rank >= run.ranks or rank not in (len(run.programs) - 1, len(run.programs)):
        raise _Wrong("rank %d here; the ranks follow one after the other, up to %d" % (rank, run.ranks - 1))
    if "raised" in item:
        run.raised.setdefault(rank, []).append(_read_raised(fields.take("raised", dict)))
        fields.done()
        return
    same_as = fields.take("same_as", int, None)
    if same_as is not None:
        if not (0 <= same_as < rank == len(run.programs)):
            raise _Wrong("\"same_as\" names an earlier rank, and is the only line of its own")
        run.programs.append(run.programs[same_as])
        fields.done()
        return
    if list(item) == ["rank"] and rank == len(run.programs):
        run.programs.append([])  # it does nothing
        return
    if rank == len(run.programs):
        run.programs.append([])
    elif any(run.programs[rank] is earlier for earlier in run.programs[:rank]):
        raise _Wrong("a statement of rank %d, which is the same as an earlier rank" % rank)
    statement = Statement(fields.take("text", str))
    statement.ops = [_read_op(run, op) for op in fields.take("ops", list)]
    fields.done()
    run.programs[rank].append(statement)


def _read_raised(item: Dict[str, Any]) -> Raised:
    fields = _Fields(item, "what was raised")
    raised = Raised(fields.take("statement", int, least=0), fields.take("exception", str),
                    fields.take("text", str), fields.take("path", list, []))
    fields.done()
    return raised


def _read_flow(fields: "_Fields") -> Flow:
    return Flow(_read_tensors(fields.take("in", list, None)), _read_tensors(fields.take("out", list, None)))


def _read_tensors(item: Optional[List[Any]]) -> Tensors:
    if item is None:
        return Tensors()
    if len(item) not in (2, 4) or not all(type(number) is int and number >= 0 for number in item):
        raise _Wrong("the tensors of a call are 2 or 4 whole numbers, not %s" % json.dumps(item)[:40])
    return Tensors(*item)


def _read_calls(items: List[Any], run: Run, recorded: bool) -> List[Call]:
    modules = len(run.modules)
    calls = []
    for item in items:
        if isinstance(item, dict) and "read" in item:
            fields = _Fields(item, "a weight that is read")
            calls.append(Call(read=_check_ref(run, _ref(fields.take("read", list)))))
            fields.done()
            continue
        if isinstance(item, dict):
            fields = _Fields(item, "a call")
            call = Call(_index(fields.take("module", int), modules, "module"))
            call.calls = _read_calls(fields.take("calls", list, []), run, recorded)
            call.checkpoint = fields.take("checkpoint", str, None)
            if call.checkpoint is not None and call.checkpoint not in CHECKPOINTS:
                raise _Wrong("\"checkpoint\" is one of %s, not %s"
                             % (", ".join(CHECKPOINTS), call.checkpoint))
            call.detach = fields.take("detach", bool, False)
            call.discard = fields.take("discard", bool, False)
            call.flow = _read_flow(fields) if recorded else None
            fields.done()
        elif isinstance(item, list) and len(item) == 2 and isinstance(item[1], list):
            call = Call(_index(item[0], modules, "module"), _read_calls(item[1], run, recorded),
                        flow=Flow() if recorded else None)
        else:
            call = Call(_index(item, modules, "module"), flow=Flow() if recorded else None)
        calls.append(call)
    return calls


def _read_op(run: Run, item: Any) -> Op:
    fields = _Fields(item, "an op")
    op = Op(fields.take("op", str))
    if op.op not in OPS:
        raise _Wrong("unknown op \"%s\"" % op.op)
    op.engine = _index(fields.take("engine", int, 0), len(run.engines), "engine")
    if op.op == "forward":
        op.plan = _index(fields.take("plan", int), len(run.plans), "plan")
        op.grad = fields.take("grad", bool, True)
        op.direct = fields.take("direct", bool, False)
    elif op.op == "step":
        op.overflow = fields.take("overflow", bool, False)
    elif op.op == "gather":
        op.params = [_check_ref(run, _ref(ref)) for ref in fields.take("params", list)]
        op.modifier_rank = fields.take("modifier_rank", int, None)
    fields.done()
    return op


def _fill_ranks(run: Run) -> None:
    missing = run.ranks - len(run.programs)
    if missing and not run.partial and run.programs:
        raise _Wrong("the run ends without statements of rank %d" % len(run.programs))
    run.programs.extend([] for _ in range(missing))


def _ref(item: Any) -> ParamRef:
    if not (isinstance(item, list) and len(item) == 2 and all(type(i) is int for i in item)):
        raise _Wrong("a parameter is [module, param], not %s" % json.dumps(item)[:40])
    return item[0], item[1]


def _check_ref(run: Run, ref: ParamRef) -> ParamRef:
    _index(ref[1], len(run.modules[_index(ref[0], len(run.modules), "module")].params), "parameter")
    return ref


def _index(value: Any, count: int, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < count:
        raise _Wrong("there is no %s %s; they are 0 to %d" % (what, json.dumps(value)[:40], count - 1))
    return value


def dumps(item: Any) -> str:
    """One line of a run or trace file: compact, UTF-8 as it is, no newline inside."""
    return json.dumps(item, ensure_ascii=False, separators=(",", ":"))


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
    for key, tensors in (("in", flow.inputs), ("out", flow.outputs)) if flow is not None else ():
        if tensors != Tensors():
            item[key] = list(tensors if any(tensors[2:]) else tensors[:2])
    return item


def call_item(call: Call) -> Any:
    """A call of a plan's line."""
    if call.read is not None:
        return {"read": list(call.read)}
    calls = [call_item(inner) for inner in call.calls]
    flow = _flow_item(call.flow)
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
                                ("overflow", op.overflow, False)):
        if value != default:
            item[key] = value
    if op.op == "gather":
        item["params"] = [list(ref) for ref in op.params]
        if op.modifier_rank is not None:
            item["modifier_rank"] = op.modifier_rank
    return item
