"""Layers written as torch prints them, "Linear(1024, 1024, bias=False)": their parameters' names and shapes.

Sizes and those options that decide which parameters exist; another option (padding=1) is passed over.
"""
import re
from typing import Callable, Dict, List, Tuple

from zero3probe.scenario.model import CONTAINERS, Model
from zero3probe.scenario.yaml_file import MAX_NUMEL, parse_number

_SIZES = ("in_features", "out_features", "num_embeddings", "embedding_dim", "normalized_shape", "kernel_size")
_CLASS = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")
Params = List[Tuple[str, List[int]]]
Flag = Callable[[str], bool]


class _Wrong(Exception):
    """What is wrong with a layer's text."""


def apply_layer(model: Model, module: int, text: str) -> str:
    """Gives the module that class, and the class's parameters. Returns what is wrong, "" if nothing."""
    name, bracket, rest = text.partition("(")
    name = name.strip(" ")
    if not _CLASS.match(name):
        return "'%s' is not a class name" % name
    model.modules[module].type = name
    model.extra[module].container = name in CONTAINERS
    if bracket and not rest.endswith(")"):
        return "'(' without its ')'"
    inside = rest[:-1]
    if name not in _LAYERS:
        if "=" not in inside and inside.strip(" "):
            return "the parameters of %s(%s) are not known" % (name, inside)
        return ""
    count, params_of = _LAYERS[name]
    try:
        sizes, named = _arguments(inside)
    except _Wrong as wrong:
        return str(wrong)
    if len(sizes) != count:
        return "%s takes %d size(s)" % (name, count)
    for param, shape in params_of(sizes, lambda flag: named.get(flag) not in ("False", "false")):
        model.add_param(module, param, shape)
    return ""


def _arguments(text: str) -> Tuple[List[int], Dict[str, str]]:
    sizes: List[int] = []
    named: Dict[str, str] = {}
    while text.strip(" "):
        argument, text = _take_argument(text)
        name, equals, value = argument.partition("=")
        if not equals:
            name, value = "", argument
        name, value = name.strip(" "), _first_of(value.strip(" "))
        if name and name not in _SIZES:
            named[name] = value
            continue
        kind, number = parse_number(value)
        if kind != "whole" or number > MAX_NUMEL:
            raise _Wrong("'%s' is not a size" % value)
        sizes.append(number)
    return sizes, named


def _take_argument(text: str) -> Tuple[str, str]:
    """Up to the comma that is in no brackets, and the rest."""
    depth = 0
    end = 0
    while end < len(text) and (depth > 0 or text[end] != ","):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    return text[:end].strip(" "), text[end + 1:]


def _first_of(value: str) -> str:
    """A tuple such as (3, 3) or (1024,) counts as its first number."""
    if value.startswith("("):
        value = value[1:]
    return re.split("[,)]", value, maxsplit=1)[0].strip(" ")


def _linear(sizes: List[int], flag: Flag) -> Params:
    return [("weight", [sizes[1], sizes[0]])] + ([("bias", [sizes[1]])] if flag("bias") else [])


def _conv1d(sizes: List[int], flag: Flag) -> Params:  # transformers' Conv1D(nf, nx)
    return [("weight", [sizes[1], sizes[0]]), ("bias", [sizes[0]])]


def _embedding(sizes: List[int], flag: Flag) -> Params:
    return [("weight", [sizes[0], sizes[1]])]


def _conv2d(sizes: List[int], flag: Flag) -> Params:
    weight = ("weight", [sizes[1], sizes[0], sizes[2], sizes[2]])
    return [weight] + ([("bias", [sizes[1]])] if flag("bias") else [])


def _layer_norm(sizes: List[int], flag: Flag) -> Params:
    if not flag("elementwise_affine"):
        return []
    return [("weight", [sizes[0]])] + ([("bias", [sizes[0]])] if flag("bias") else [])


def _rms_norm(sizes: List[int], flag: Flag) -> Params:
    return [("weight", [sizes[0]])]


_LAYERS: Dict[str, Tuple[int, Callable[[List[int], Flag], Params]]] = {
    "Linear": (2, _linear),
    "Embedding": (2, _embedding),
    "LayerNorm": (1, _layer_norm),
    "RMSNorm": (1, _rms_norm),
    "LlamaRMSNorm": (1, _rms_norm),
    "T5LayerNorm": (1, _rms_norm),
    "BatchNorm2d": (1, _layer_norm),
    "Conv1D": (2, _conv1d),
    "Conv2d": (3, _conv2d),
}
