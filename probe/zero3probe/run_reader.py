"""Reads the run file of docs/run-format.md, with the line of whatever is wrong.

Needs the standard library alone. A file that was cut is read up to the cut and marked `partial`.
"""
import json
from typing import Any, Callable, Dict, IO, Iterator, List, Optional, Tuple

from zero3probe.run import (CHECKPOINTS, OPS, Call, Engine, External, Flow, Module, Op, Param, ParamRef,
                            Raised, Run, Statement, Tensors)
from zero3probe.run_writer import FORMAT, VERSION


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
    return Tensors() if item is None else Tensors(*_numbers(item, "a call", (2, 4)))


def _read_count(item: Optional[List[Any]]) -> Tuple[int, int]:
    plain, contained = (_numbers(item or [0], "a first pass", (1, 2)) + [0])[:2]
    return plain, contained


def _numbers(item: List[Any], what: str, sizes: Tuple[int, int]) -> List[int]:
    if len(item) not in sizes or not all(type(number) is int and number >= 0 for number in item):
        raise _Wrong("the tensors of %s are %d or %d whole numbers, not %s"
                     % ((what,) + sizes + (json.dumps(item)[:40],)))
    return item


def _read_calls(items: List[Any], run: Run, recorded: bool) -> List[Call]:
    return [_read_call(item, run, recorded) for item in items]


def _read_call(item: Any, run: Run, recorded: bool) -> Call:
    modules = len(run.modules)
    if isinstance(item, dict):
        return _read_recorded_call(item, run) if recorded else _read_planned_call(item, run)
    flow = Flow() if recorded else None
    if isinstance(item, list) and len(item) == 2 and isinstance(item[1], list):
        return Call(_index(item[0], modules, "module"), _read_calls(item[1], run, recorded), flow=flow)
    return Call(_index(item, modules, "module"), flow=flow)


def _read_planned_call(item: Dict[str, Any], run: Run) -> Call:
    fields = _Fields(item, "a call")
    call = Call(_index(fields.take("module", int), len(run.modules), "module"))
    call.calls = _read_calls(fields.take("calls", list, []), run, False)
    call.checkpoint = _checkpointing(fields.take("checkpoint", str, None), "checkpoint")
    call.detach = fields.take("detach", bool, False)
    call.discard = fields.take("discard", bool, False)
    fields.done()
    return call


def _read_recorded_call(item: Dict[str, Any], run: Run) -> Call:
    if "read" in item:
        fields = _Fields(item, "a weight that is read")
        call = Call(read=_check_ref(run, _ref(fields.take("read", list))))
    elif "stop" in item:
        fields = _Fields(item, "a stop")
        call = Call(stop=fields.take("stop", bool))
        if not call.stop:
            raise _Wrong("\"stop\" is true, or absent")
    elif "region" in item:
        fields = _Fields(item, "a region")
        call = Call(region=_checkpointing(fields.take("region", str), "region"),
                    calls=_read_calls(fields.take("calls", list), run, True),
                    flow=Flow(outputs=_read_tensors(fields.take("out", list, None))))
    else:
        fields = _Fields(item, "a call of a recorded plan")
        call = Call(_index(fields.take("module", int), len(run.modules), "module"),
                    _read_calls(fields.take("calls", list, []), run, True), flow=_read_flow(fields))
        assert call.flow is not None
        call.flow.first_inputs = _read_count(fields.take("first_in", list, None))
        call.flow.first_outputs = _read_count(fields.take("first_out", list, None))
    fields.done()
    return call


def _checkpointing(word: Optional[str], key: str) -> Optional[str]:
    if word is not None and word not in CHECKPOINTS:
        raise _Wrong("\"%s\" is one of %s, not %s" % (key, ", ".join(CHECKPOINTS), word))
    return word


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
    elif op.op in ("train", "eval"):
        module = fields.take("module", int, None)
        op.module = None if module is None else _index(module, len(run.modules), "module")
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
