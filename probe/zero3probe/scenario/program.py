"""A scenario's program as written: steps with repeats, per-rank branches and seeded choices, before a rank and a seed
settle them."""
from typing import List, NamedTuple, Optional, Tuple

from zero3probe.run import Engine, ParamRef
from zero3probe.scenario.model import Model, Plan
from zero3probe.scenario.plan import PlanReader
from zero3probe.scenario.yaml_file import Node, Place, YamlFile, short_text

MAX_REPEATS = MAX_WEIGHT = MAX_RANK = 1000000

# A step that is one word, or that word with an engine: what DeepSpeed's object does is its name.
_WORDS = {"backward": "backward", "step": "step", "overflowing_step": "step", "train_mode": "train",
          "eval_mode": "eval", "save_16bit_model": "save_16bit_model", "save_fp16_model": "save_16bit_model",
          "consolidated_16bit_state_dict": "consolidated_16bit_state_dict", "save_checkpoint": "save_checkpoint",
          "load_checkpoint": "load_checkpoint", "empty_partition_cache": "empty_partition_cache",
          "offload_states": "offload_states", "reload_states": "reload_states",
          "register_hooks_again": "register_hooks_again"}

# A step with a value, and the keys that may stand beside it.
_VERBS = {"train": ("engine", "direct", "overflow"), "forward": ("engine", "direct", "grad"),
          "evaluate": ("engine", "direct"), "gather": ("engine", "modifier_rank", "do"),
          "unwrap_model_for_generation": ("engine",), "repeat": ("do",), "when": ("do", "else"),
          "choose": ("per_rank",)}
_WITHOUT_VALUE = ("train", "forward", "evaluate", "unwrap_model_for_generation")


class NamedEngine(NamedTuple):
    name: str
    setup: Engine


class StepOp:
    """An op whose plan may still hold draws; the fields are those of the run file's."""

    def __init__(self, op: str, engine: int) -> None:
        self.op = op
        self.engine = engine
        self.plan: Optional[Plan] = None
        self.grad = True
        self.direct = False
        self.overflow = False
        self.params: List[ParamRef] = []
        self.modifier_rank: Optional[int] = None
        self.module: Optional[int] = None


class Step:
    """`kind`: "ops"; "block": ops, the first branch, closing ops; "repeat": the first branch so many times; "when":
    the first branch where `ranks` and `iterations` hold, else the second; "choose": one of the branches."""

    def __init__(self, text: str, place: Place) -> None:
        self.kind = "ops"
        self.text = text
        self.place = place
        self.ops: List[StepOp] = []
        self.closing_ops: List[StepOp] = []
        self.branches: List[Tuple[int, List["Step"]]] = []  # weight of a choice, steps
        self.times = 1
        self.ranks: List[int] = []  # empty: every rank
        self.iterations: List[int] = []  # of the nearest repeat, from 1; empty: each
        self.per_rank = False


def read_program(file: YamlFile, node: Node, model: Model, engines: List[NamedEngine],
                 plans: Optional[Node], ranks: int) -> List[Step]:
    """`ranks`: the scenario's own, for which each branch must be one that some rank takes."""
    steps = _ProgramReader(file, model, engines, plans, ranks).read_steps(node, "program")
    return steps or file.fail(node.place, "the program is empty")


class _ProgramReader:
    def __init__(self, file: YamlFile, model: Model, engines: List[NamedEngine], plans: Optional[Node],
                 ranks: int) -> None:
        self._file = file
        self._model = model
        self._engines = engines
        self._plans = PlanReader(file, model, plans)
        self._ranks = ranks
        self._times = 0  # of the nearest repeat around the step being read; 0: there is none

    def read_steps(self, node: Node, what: str) -> List[Step]:
        return [self._read_step(item) for item in self._file.list(node, what)]

    def _read_step(self, node: Node) -> Step:
        file = self._file
        if node.is_scalar:
            return self._read_word(node)
        file.map(node, "a step")
        verb = next((key for key, _ in node.keys if key in _VERBS or key in _WORDS), None)
        if verb is None and not node.keys:
            file.fail(node.place, "an empty step")
        if verb is None:
            key, place = node.keys[0]
            return file.fail(place, "unknown step '%s'" % key)
        file.check_keys(node, (verb,) + _VERBS.get(verb, ("engine",)), "'%s'" % verb)
        step = Step(_text_of(node), node.place)
        value = node.find(verb)
        assert value is not None
        if verb in _VERBS:
            self._read_verb(step, verb, node, value)
            return step
        step.ops = [_word_op(verb, self._read_engine(node))]
        if not value.is_null:
            step.ops = self._ops_of_modules(step.ops[0], verb, value)
        return step

    def _ops_of_modules(self, op: StepOp, verb: str, value: Node) -> List[StepOp]:
        """`eval_mode: body.norm`: of modules instead of the engine."""
        if op.op not in ("train", "eval"):
            self._file.fail(value.place, "'%s' takes no value" % verb)
        root = self._engines[op.engine].setup.root
        ops = []
        for item in [value] if value.is_scalar else self._file.list(value, verb):
            path = self._file.text(item, "a module's name")
            ops.append(StepOp(op.op, op.engine))
            found = self._model.find(root, path)
            ops[-1].module = found if found >= 0 else self._file.fail(item.place, "there is no module '%s'" % path)
        return ops or self._file.fail(value.place, "'%s' of no module" % verb)

    def _read_word(self, node: Node) -> Step:
        """"train", "evaluate" and "forward" alone call what the model says it calls."""
        step = Step(_text_of(node), node.place)
        if node.scalar in _WORDS:
            step.ops = [_word_op(node.scalar, 0)]
        elif node.scalar in _WITHOUT_VALUE:
            self._read_verb(step, node.scalar, Node("map", node.place), Node("null", node.place))
        elif node.scalar in _VERBS:
            self._file.fail(node.place, "'%s' needs a value" % node.scalar)
        else:
            self._file.fail(node.place, "unknown step '%s'" % node.scalar)
        return step

    def _read_verb(self, step: Step, verb: str, node: Node, value: Node) -> None:
        if verb in ("train", "forward", "evaluate"):
            self._read_forward(step, verb, node, value)
        elif verb == "gather":
            self._read_gather(step, node, value)
        elif verb == "unwrap_model_for_generation":
            self._read_unwrap(step, node, value)
        elif verb == "repeat":
            step.kind = "repeat"
            step.times = self._file.count(value, "repeat", MAX_REPEATS)
            outer_times, self._times = self._times, step.times
            step.branches = [(1, self.read_steps(self._needed(node, "do"), "do"))]
            self._times = outer_times
        elif verb == "when":
            self._read_when(step, node, value)
        else:
            self._read_choose(step, node, value)

    def _read_forward(self, step: Step, verb: str, node: Node, value: Node) -> None:
        engine = self._read_engine(node)
        forward = StepOp("forward", engine)
        forward.direct = self._flag(node, "direct", False)
        forward.grad = verb != "evaluate" and self._flag(node, "grad", True)
        forward.plan = self._plans.read(value, self._engines[engine].setup.root)
        if verb == "train":
            update = StepOp("step", engine)
            update.overflow = self._flag(node, "overflow", False)
            step.ops = [StepOp("train", engine), forward, StepOp("backward", engine), update]
        elif verb == "evaluate":
            step.ops = [StepOp("eval", engine), forward, StepOp("train", engine)]
        else:
            step.ops = [forward]

    def _read_gather(self, step: Step, node: Node, value: Node) -> None:
        step.kind = "block"
        enter = StepOp("gather", self._read_engine(node))
        root = self._engines[enter.engine].setup.root
        for item in [value] if value.is_scalar else self._file.list(value, "gather"):
            enter.params.extend(self._read_params(item, root))
        modifier = node.find("modifier_rank")
        if modifier is not None and not modifier.is_null and modifier.scalar not in ("None", "none"):
            enter.modifier_rank = self._file.count(modifier, "modifier_rank", MAX_RANK)
        step.ops = [enter]
        step.closing_ops = [StepOp("gather_exit", enter.engine)]
        block = node.find("do")
        step.branches = [(1, [] if block is None else self.read_steps(block, "do"))]

    def _read_params(self, node: Node, root: int) -> List[ParamRef]:
        """A parameter, or a module for all below it: GatheredParameters(module.parameters())."""
        path = self._file.text(node, "a parameter's name")
        param = self._model.find_param(root, path)
        if param is not None:
            return [param]
        module = root if path == "all" else self._model.find(root, path)
        if module < 0:
            self._file.fail(node.place, "there is no parameter or module '%s'" % path)
        return (self._model.params_below(module)
                or self._file.fail(node.place, "'%s' has no parameters" % path))

    def _read_unwrap(self, step: Step, node: Node, value: Node) -> None:
        step.kind = "block"
        engine = self._read_engine(node)
        step.ops = [StepOp("unwrap", engine)]
        step.closing_ops = [StepOp("unwrap_exit", engine)]
        steps = [] if value.is_null else self.read_steps(value, "unwrap_model_for_generation")
        step.branches = [(1, steps)]

    def _read_when(self, step: Step, node: Node, value: Node) -> None:
        step.kind = "when"
        self._file.check_keys(self._file.map(value, "when"), ("rank", "iteration"), "when")
        if not value.keys:
            self._file.fail(value.place, "when asks for nothing")
        step.ranks = self._read_counts(value.find("rank"), "rank")
        step.iterations = self._read_counts(value.find("iteration"), "iteration")
        self._check_taken(step, node, value)
        inside = self.read_steps(self._needed(node, "do"), "do")
        otherwise = node.find("else")
        step.branches = [(1, inside), (1, [] if otherwise is None else self.read_steps(otherwise, "else"))]

    def _check_taken(self, step: Step, node: Node, value: Node) -> None:
        """Refuses a branch that no rank ever takes."""
        ranks = {rank for rank in step.ranks if rank < self._ranks}
        iterations = {iteration for iteration in step.iterations if 1 <= iteration <= self._times}
        for wanted, taken, key in ((step.ranks, ranks, "rank"), (step.iterations, iterations, "iteration")):
            asked = value.find(key)
            if wanted and not taken and asked is not None:
                self._file.fail(asked.place, "no rank takes this branch: %s %d" % (key, wanted[0]))
        everyone = not step.ranks or len(ranks) == self._ranks
        always = not step.iterations or len(iterations) == self._times
        for name, place in node.keys:
            if name == "else" and everyone and always:
                self._file.fail(place, "no rank takes 'else': every rank takes the other branch")

    def _read_choose(self, step: Step, node: Node, value: Node) -> None:
        step.kind = "choose"
        for option in self._file.list(value, "choose"):
            weight, steps = 1, option
            if option.is_map:
                self._file.check_keys(option, ("weight", "do"), "an option")
                steps = self._needed(option, "do")
                given = option.find("weight")
                weight = 1 if given is None else self._file.count(given, "weight", MAX_WEIGHT)
            step.branches.append((weight, self.read_steps(steps, "an option")))
        if not any(weight for weight, _ in step.branches):
            self._file.fail(value.place, "choose has nothing to choose from")
        step.per_rank = self._flag(node, "per_rank", False)

    def _flag(self, node: Node, key: str, otherwise: bool) -> bool:
        value = node.find(key)
        return otherwise if value is None else self._file.boolean(value, key)

    def _needed(self, node: Node, key: str) -> Node:
        value = node.find(key)
        return value if value is not None else self._file.fail(node.place, "'%s' is missing" % key)

    def _read_counts(self, node: Optional[Node], what: str) -> List[int]:
        if node is None:
            return []
        if node.is_scalar:
            return [self._file.count(node, what, MAX_RANK)]
        counts = [self._file.count(item, what, MAX_RANK) for item in self._file.list(node, what)]
        return counts or self._file.fail(node.place, what + " is empty")

    def _read_engine(self, node: Node) -> int:
        engine = node.find("engine")
        if engine is None:
            return 0
        name = self._file.text(engine, "engine")
        for i, known in enumerate(self._engines):
            if name in (known.name, str(i)):
                return i
        return self._file.fail(engine.place, "there is no engine '%s'" % name)


def _word_op(word: str, engine: int) -> StepOp:
    op = StepOp(_WORDS[word], engine)
    op.overflow = word == "overflowing_step"
    return op


def _text_of(node: Node) -> str:
    """A step's own words, without the steps inside it."""
    if not node.is_map:
        return short_text(node)
    shown = Node("map", node.place)
    for key, place, item in node.entries():
        if key not in ("do", "else"):
            inner = key in ("choose", "unwrap_model_for_generation")
            shown.keys.append((key, place))
            shown.items.append(Node("null", place) if inner else item)
    return short_text(shown)
