"""Plans: what a forward calls, as words. "embed_tokens layers.*:checkpoint norm", "block[attn mlp:discard]",
"experts.?2"; docs/scenario-format.md tells the whole notation."""
import re
from typing import List, Optional

from zero3probe.scenario.model import Model, Plan, PlanItem
from zero3probe.scenario.yaml_file import Node, YamlFile, parse_number

MAX_ITEMS = 1000000
MAX_BRACKETS = 100
_SPACE = re.compile(r"[ \t\n\r,]*")
_PATH = re.compile(r"[A-Za-z0-9_.*?-]*")
_CHECKPOINTS = {"checkpoint": "non-reentrant", "reentrant": "reentrant", "whole_recompute": "whole-recompute"}


class _Cursor:
    """Where in a plan's text the reader is."""

    def __init__(self, node: Node, text: str) -> None:
        self.node = node
        self.text = text
        self.at = 0

    def front(self) -> str:
        """The next character; "" at the end."""
        return self.text[self.at:self.at + 1]

    def take(self, pattern: "re.Pattern[str]") -> str:
        match = pattern.match(self.text, self.at)
        assert match is not None  # both patterns match nothing too
        self.at = match.end()
        return match.group()


class PlanReader:
    """`plans`: the file's named plans, a mapping; None if it has none."""

    def __init__(self, file: YamlFile, model: Model, plans: Optional[Node]) -> None:
        self._file = file
        self._model = model
        self._plans = plans
        self._expanding: List[str] = []  # the named plans being read, outermost first
        self._items = 0

    def read(self, node: Node, start: int) -> Plan:
        """What module `start` calls. A node without a value is "all": what the model says it calls."""
        if node.is_null:
            return self._model.own_forward(start)
        if not node.is_list:
            return self._read_text(node, start)
        return [item for part in node.items for item in self._read_text(part, start)]

    def _fail(self, cursor: _Cursor, message: str) -> None:
        self._file.fail(cursor.node.place, message)

    def _read_text(self, node: Node, start: int) -> Plan:
        cursor = _Cursor(node, self._file.text(node, "a plan"))
        plan = self._read_items(cursor, start, 0)
        if cursor.front():
            self._fail(cursor, "']' without its '['")
        return plan

    def _read_items(self, cursor: _Cursor, start: int, depth: int) -> Plan:
        if depth > MAX_BRACKETS:
            self._fail(cursor, "more than %d nested brackets" % MAX_BRACKETS)
        plan: Plan = []
        while True:
            cursor.take(_SPACE)
            if cursor.front() in ("", "]"):
                return plan
            part = self._read_item(cursor, start, depth)
            self._items += len(part)
            if self._items > MAX_ITEMS:
                self._fail(cursor, "the plans of this file call more than %d modules" % MAX_ITEMS)
            plan.extend(part)

    def _read_item(self, cursor: _Cursor, start: int, depth: int) -> Plan:
        path = cursor.take(_PATH)
        if not path:
            self._fail(cursor, "unexpected '%s' in a plan" % cursor.front())
        items = self._resolve(cursor, path, start)
        self._read_suffixes(cursor, items)
        if cursor.front() != "[":
            return items
        bracket = cursor.at
        # What stands in the brackets is read for each module that the path names: names are seen from there.
        for item in items:
            if item.module < 0:
                self._fail(cursor, "a draw takes no brackets")
            cursor.at = bracket + 1
            item.children = self._read_items(cursor, item.module, depth + 1)
            if not cursor.front():
                self._fail(cursor, "'[' without its ']'")
            cursor.at += 1
        if not items:
            self._fail(cursor, "'[' after what calls nothing")
        return items

    def _read_suffixes(self, cursor: _Cursor, items: Plan) -> None:
        while cursor.front() == ":":
            cursor.at += 1
            word = cursor.take(_PATH)
            if word not in _CHECKPOINTS and word not in ("detach", "discard", "per_rank"):
                self._fail(cursor, "unknown suffix ':%s'" % word)
            for item in items:
                item.checkpoint = _CHECKPOINTS.get(word, item.checkpoint)
                item.detach = item.detach or word == "detach"
                item.discard = item.discard or word == "discard"
                item.per_rank = item.per_rank or word == "per_rank"
                if word == "per_rank" and item.module >= 0:
                    self._fail(cursor, "':per_rank' is for draws")

    def _resolve(self, cursor: _Cursor, path: str, start: int) -> Plan:
        model = self._model
        if model.find(start, path) < 0:
            if self._plans is not None and self._plans.find(path) is not None:
                return self._named_plan(cursor, path, start)
            if path == "all":
                return model.own_forward(start)
            if "?" in path:
                return [self._draw(cursor, path, start)]
        every = path == "*" or path.endswith(".*")
        if path == "*":
            module = start
        else:
            module = self._find(cursor, path[:-2] if every else path, start)
        if not every and not model.extra[module].container:
            return [PlanItem(module)]
        plan = [PlanItem(child) for child in model.callable_children(module)]
        if not plan:
            self._fail(cursor, "'%s' has no children to call" % model.modules[module].name)
        return plan

    def _draw(self, cursor: _Cursor, path: str, start: int) -> PlanItem:
        """"experts.?2": two of them, as the seed has it."""
        before, _, number = path.partition("?")
        kind, count = parse_number(number)
        if (before and not before.endswith(".")) or kind != "whole" or count < 1:
            self._fail(cursor, "how many to draw is missing")
        module = self._find(cursor, before[:-1], start) if before else start
        item = PlanItem()
        item.candidates = self._model.callable_children(module)
        item.drawn = count
        if count > len(item.candidates):
            self._fail(cursor, "'%s' has %d children to draw from"
                       % (self._model.modules[module].name, len(item.candidates)))
        return item

    def _named_plan(self, cursor: _Cursor, name: str, start: int) -> Plan:
        if name in self._expanding:
            self._fail(cursor, "the plan '%s' uses itself" % name)
        assert self._plans is not None
        node = self._plans.find(name)
        assert node is not None
        self._expanding.append(name)
        plan = self.read(node, start)
        self._expanding.pop()
        return plan

    def _find(self, cursor: _Cursor, path: str, start: int) -> int:
        module = self._model.find(start, path)
        if module < 0:
            self._fail(cursor, "there is no module '%s'" % path)
        return module
