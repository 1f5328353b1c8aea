"""A YAML file as a tree that knows where everything was written, and the errors that say so.

PyYAML parses; what a scenario has no use for (anchors, tags, several documents, nesting without end) is refused, as
zero3sim refuses it. Numbers are whole counts as people write them: 50000000, 50_000_000, 5e7.
"""
import re
from typing import Any, Iterable, List, Optional, Tuple

import yaml

MAX_FILE_BYTES = 16 << 20
MAX_DEPTH = 100
MAX_OPEN_BRACKETS = 10000
MAX_NUMEL = 1 << 62
INT64_MAX = (1 << 63) - 1
Place = Tuple[int, int]  # line, column; both from 1

_NULLS = ("", "~", "null", "Null", "NULL")
_DIGITS = r"[0-9](?:_?[0-9])*"
_NUMBER = re.compile(r"([+-]?)(%s)?(?:\.(%s)?)?(?:[eE]([+-]?)(%s))?\Z" % (_DIGITS, _DIGITS, _DIGITS))
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")


class BadScenario(ValueError):
    """What is wrong with a scenario; `str()` begins with `path:line:column: error:`."""

    def __init__(self, path: str, place: Optional[Place], message: str) -> None:
        where = path if place is None else "%s:%d:%d" % (path, place[0], place[1])
        super().__init__("%s: error: %s" % (where, message))
        self.place = place


class Node:
    """A null, a scalar, a list or a map. Of a map, keys[i] has the value items[i]."""

    def __init__(self, kind: str, place: Place, scalar: str = "") -> None:
        self.kind = kind
        self.place = place
        self.scalar = scalar
        self.keys: List[Tuple[str, Place]] = []
        self.items: List["Node"] = []

    @property
    def is_null(self) -> bool:
        return self.kind == "null"

    @property
    def is_scalar(self) -> bool:
        return self.kind == "scalar"

    @property
    def is_list(self) -> bool:
        return self.kind == "list"

    @property
    def is_map(self) -> bool:
        return self.kind == "map"

    def find(self, key: str) -> Optional["Node"]:
        for (name, _), item in zip(self.keys, self.items):
            if name == key:
                return item
        return None

    def entries(self) -> List[Tuple[str, Place, "Node"]]:
        return [(name, place, item) for (name, place), item in zip(self.keys, self.items)]


def parse_number(text: str) -> Tuple[str, int]:
    """("whole", value) or what it is instead: "none", "negative", "fraction", "large" (no int64)."""
    match = _NUMBER.match(text)
    if match is None or not (match.group(2) or match.group(3)):
        return "none", 0
    fraction = (match.group(3) or "").replace("_", "")
    digits = (match.group(2) or "").replace("_", "") + fraction
    exponent = min(int((match.group(5) or "0").replace("_", "")), 4000)
    shift = (-exponent if match.group(4) == "-" else exponent) - len(fraction)
    while shift < 0 and len(digits) > 1 and digits[-1] == "0":
        digits = digits[:-1]
        shift += 1
    if not digits.strip("0"):
        return "whole", 0
    if match.group(1) == "-":
        return "negative", 0
    if shift < 0:
        return "fraction", 0
    value = int(digits) * 10 ** shift if len(digits) + shift < 4400 else INT64_MAX + 1
    return ("whole", value) if value <= INT64_MAX else ("large", 0)


class YamlFile:
    """Parses; `path` is shown in errors. Raises BadScenario, as every member does at what is not as asked."""

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        if len(data) > MAX_FILE_BYTES:
            self.fail(None, "more than %d MiB" % (MAX_FILE_BYTES >> 20))
        text = self._decode(data)
        self._check_text(text)
        self.root = _Builder(self).build(text)
        if self.root.is_null:
            self.fail(None, "the file is empty")

    def fail(self, place: Optional[Place], message: str) -> Any:
        raise BadScenario(self.path, place, message)

    def _decode(self, data: bytes) -> str:
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            before = data[:error.start]
            place = (before.count(b"\n") + 1, error.start - before.rfind(b"\n"))
            return self.fail(place, "the byte 0x%02x is not UTF-8" % data[error.start])

    def _check_text(self, text: str) -> None:
        control = _CONTROL.search(text)
        if control is not None:
            self.fail(_place_at(text, control.start()), "a control character: this is not a text file")
        if text.count("[") + text.count("{") <= MAX_OPEN_BRACKETS:
            return
        opened = 0
        for match in re.finditer(r"[\[\]{}]", text):
            opened = opened + 1 if match.group() in "[{" else max(0, opened - 1)
            if opened > MAX_OPEN_BRACKETS:
                self.fail(_place_at(text, match.start()), "brackets without end")

    def map(self, node: Node, what: str) -> Node:
        return node if node.is_map else self.fail(node.place, what + " must be a mapping")

    def list(self, node: Node, what: str) -> List[Node]:
        return node.items if node.is_list else self.fail(node.place, what + " must be a list")

    def text(self, node: Node, what: str) -> str:
        if not node.is_scalar or not node.scalar:
            self.fail(node.place, what + " must be a text")
        return node.scalar

    def boolean(self, node: Node, what: str) -> bool:
        if node.is_scalar and node.scalar in ("true", "True"):
            return True
        if node.is_scalar and node.scalar in ("false", "False"):
            return False
        return self.fail(node.place, what + " must be true or false")

    def count(self, node: Node, what: str, limit: int = MAX_NUMEL) -> int:
        """A whole number from 0 to `limit`."""
        if not node.is_scalar:
            self.fail(node.place, what + " must be a number")
        kind, value = parse_number(node.scalar)
        if kind == "none":
            self.fail(node.place, "%s must be a number, not '%s'" % (what, short_text(node, 40)))
        if kind == "negative":
            self.fail(node.place, what + " is negative")
        if kind == "fraction":
            self.fail(node.place, what + " is not a whole number")
        if kind == "large" or value > limit:
            self.fail(node.place, what + " is too large")
        return value

    def check_keys(self, node: Node, known: Iterable[str], what: str) -> None:
        """Refuses keys that are not among `known`."""
        names = list(known)
        for key, place in node.keys:
            if key not in names:
                self.fail(place, "unknown key '%s' in %s" % (key, what))


class _Builder:
    """The tree of PyYAML's events, checked as it grows."""

    def __init__(self, file: YamlFile) -> None:
        self._file = file
        self._open: List[Node] = []
        self._waiting: List[Optional[Tuple[str, Place]]] = []  # the key whose value comes next
        self._root = Node("null", (1, 1))
        self._documents = 0

    def build(self, text: str) -> Node:
        try:
            for event in yaml.parse(text, Loader=yaml.SafeLoader):
                self._take(event)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = None if mark is None else (mark.line + 1, mark.column + 1)
            if place is not None and place[0] > len(text.splitlines()) and self._open:
                place = self._open[-1].place
            self._file.fail(place, "not YAML: %s" % error.problem)
        except yaml.YAMLError as error:
            self._file.fail(None, "not YAML: %s" % str(error).splitlines()[0])
        return self._root

    def _take(self, event: Any) -> None:
        place = (event.start_mark.line + 1, event.start_mark.column + 1)
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                self._file.fail(place, "a second YAML document")
        elif isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            self._waiting.pop()
            self._add(self._open.pop())
        elif isinstance(event, yaml.NodeEvent):
            self._take_node(event, place)

    def _take_node(self, event: Any, place: Place) -> None:
        if event.anchor is not None:
            self._file.fail(place, "anchors and aliases are not used here")
        if event.tag not in (None, "!"):
            self._file.fail(place, "the tag '%s' is not used here" % event.tag)
        if isinstance(event, yaml.ScalarEvent):
            plain = event.style is None and event.tag is None
            self._add(Node("null" if plain and event.value in _NULLS else "scalar", place, event.value))
            return
        if len(self._open) >= MAX_DEPTH:
            self._file.fail(place, "nested more than %d deep" % MAX_DEPTH)
        self._open.append(Node("list" if isinstance(event, yaml.SequenceStartEvent) else "map", place))
        self._waiting.append(None)

    def _add(self, node: Node) -> None:
        if node.is_null:
            node.scalar = ""
        if not self._open:
            self._root = node
            return
        parent = self._open[-1]
        if parent.is_map and self._waiting[-1] is None:
            if not node.is_scalar:
                self._file.fail(node.place, "a key must be a word")
            if parent.find(node.scalar) is not None:
                self._file.fail(node.place, "duplicate key '%s'" % node.scalar)
            self._waiting[-1] = (node.scalar, node.place)
            return
        key = self._waiting[-1]
        if key is not None:
            if node.is_null:
                node.place = key[1]
            parent.keys.append(key)
            self._waiting[-1] = None
        parent.items.append(node)


def _place_at(text: str, offset: int) -> Place:
    before = text[:offset]
    return before.count("\n") + 1, offset - before.rfind("\n")


def short_text(node: Node, columns: int = 72) -> str:
    """A node in one line, as it was written; at most so many bytes."""
    text = _flat(node, True).replace("\n", " ").replace("\t", " ").replace("\r", " ")
    data = text.encode("utf-8")
    if len(data) <= columns:
        return text
    return data[:columns - 3].decode("utf-8", "ignore") + "..."


def _flat(node: Node, outermost: bool) -> str:
    if node.is_scalar:
        return node.scalar
    if node.is_list:
        inside = " ".join(_flat(item, False) for item in node.items)
        return inside if outermost else "[" + inside + "]"
    parts = []
    for key, _, item in node.entries():
        parts.append(key if item.is_null else key + ": " + _flat(item, item.is_list))
    if node.is_null:
        return ""
    return ", ".join(parts) if outermost else "{" + ", ".join(parts) + "}"
