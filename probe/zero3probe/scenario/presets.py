"""A `model` that is a preset: its sizes, LoRA around it, gradient checkpointing, a given number of parameters."""
from typing import Callable, Dict, List, NamedTuple, Optional, Set, Tuple

from zero3probe.run import Param
from zero3probe.scenario import families
from zero3probe.scenario.families import Maker, Sizes
from zero3probe.scenario.model import Model
from zero3probe.scenario.yaml_file import INT64_MAX, Node, YamlFile

MAX_SIZE = 1 << 31
MAX_MODULES = 200000
_COMMON_KEYS = ("preset", "parameters", "gradient_checkpointing", "freeze", "leaf_modules", "other_roots")
_CHECKPOINTING = {"true": "non-reentrant", "non_reentrant": "non-reentrant", "reentrant": "reentrant",
                  "whole_recompute": "whole-recompute"}
_FLAGS = ("tie_word_embeddings", "experts_per_rank")


class Preset(NamedTuple):
    """`defaults` is in the order of config.json; None follows from another size. "" where a family has none."""
    name: str
    hidden_size: str
    layers: str
    heads: str
    inner: str
    defaults: Dict[str, Optional[int]]
    build: Callable[[Model, int, str, Sizes], int]
    check: Callable[[Sizes], str]
    lora_targets: Tuple[str, ...]


def _nothing_to_check(sizes: Sizes) -> str:
    return ""


def _check_heads(sizes: Sizes) -> str:
    heads, width = sizes["num_attention_heads"], sizes["hidden_size"]
    if heads == 0 or width % heads != 0:
        return "hidden_size %d is not a multiple of num_attention_heads %d" % (width, heads)
    return ""


def _check_experts(sizes: Sizes) -> str:
    drawn, experts = sizes["experts_per_step"], sizes["num_local_experts"]
    if not 1 <= drawn <= experts:
        return "experts_per_step %d of num_local_experts %d" % (drawn, experts)
    return _check_heads(sizes)


_MLP = {"hidden_size": 1024, "num_layers": 4, "input_size": None, "output_size": None}
_GPT = {"n_embd": 768, "n_layer": 12, "n_inner": None, "vocab_size": 50257, "n_positions": 1024,
        "tie_word_embeddings": 1}
_LLAMA = {"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
          "num_key_value_heads": None, "vocab_size": 32000, "tie_word_embeddings": 0}
_MIXTRAL = {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
            "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000, "num_local_experts": 8,
            "experts_per_step": None, "num_experts_per_tok": 2, "experts_per_rank": 0,
            "tie_word_embeddings": 0}
_T5 = {"d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 6, "num_heads": 8, "num_decoder_layers": None,
       "vocab_size": 32128, "relative_attention_num_buckets": 32, "tie_word_embeddings": 1}

PRESETS = {preset.name: preset for preset in (
    Preset("mlp", "hidden_size", "num_layers", "", "", _MLP, families.build_mlp, _nothing_to_check, ()),
    Preset("gpt", "n_embd", "n_layer", "", "", _GPT, families.build_gpt, _nothing_to_check, ("c_attn",)),
    Preset("llama", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", _LLAMA,
           families.build_llama, _check_heads, ("q_proj", "v_proj")),
    Preset("t5", "d_model", "num_layers", "num_heads", "d_ff", _T5, families.build_t5, _nothing_to_check,
           ("q", "v")),
    Preset("mixtral", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", _MIXTRAL,
           families.build_mixtral, _check_experts, ("q_proj", "v_proj")),
)}


def read_preset(file: YamlFile, node: Node) -> Model:
    """Reads all keys but those that every model has (freeze, leaf_modules, other_roots)."""
    name = node.find("preset")
    assert name is not None
    lora = file.text(name, "preset") == "lora"
    if lora:
        base = node.find("base")
        preset = file.fail(name.place, "lora needs a base") if base is None else _named(file, base)
    else:
        preset = _named(file, name)
    known = _COMMON_KEYS + (("base", "r", "target_modules") if lora else ()) + tuple(preset.defaults)
    file.check_keys(node, known, "a %s model" % preset.name)
    sizes = _read_sizes(file, node, preset)
    model = _read_lora(file, node, preset, sizes) if lora else _make(preset, sizes)
    model.hidden_size = sizes[preset.hidden_size]
    _read_checkpointing(file, node, model)
    return model


def _named(file: YamlFile, node: Node) -> Preset:
    preset = PRESETS.get(file.text(node, "preset"))
    return preset or file.fail(node.place, "unknown preset '%s'" % node.scalar)


def _make(preset: Preset, sizes: Sizes) -> Model:
    model = Model()
    preset.build(model, -1, "root", sizes)
    return model


def _read_sizes(file: YamlFile, node: Node, preset: Preset) -> Sizes:
    given: Sizes = {}
    for name in preset.defaults:
        value = node.find(name)
        if value is None:
            continue
        given[name] = int(file.boolean(value, name)) if name in _FLAGS else file.count(value, name, MAX_SIZE)
        if name not in _FLAGS and given[name] == 0:
            file.fail(value.place, name + " is 0")
    parameters = node.find("parameters")
    sizes = _complete(preset, given)
    if parameters is not None:
        sizes = _sized_by_parameters(preset, given, file.count(parameters, "parameters"))
        if not sizes:
            file.fail(parameters.place, "no model of this family has these sizes")
    wrong = preset.check(sizes)
    if wrong:
        file.fail(node.place, wrong)
    if sizes[preset.layers] > MAX_MODULES // sizes.get("num_local_experts", 1):
        file.fail(node.place, "the model has too many layers")
    return sizes


def _complete(preset: Preset, given: Sizes) -> Sizes:
    """The sizes with their defaults filled in."""
    sizes = dict(given)
    for name, value in preset.defaults.items():
        if value is not None:
            sizes.setdefault(name, value)
    for name in preset.defaults:
        if name not in sizes:
            sizes[name] = _derived(name, sizes)
    return sizes


def _derived(name: str, sizes: Sizes) -> int:
    if name == "n_inner":
        return 4 * sizes["n_embd"]
    source = {"num_key_value_heads": "num_attention_heads", "num_decoder_layers": "num_layers",
              "experts_per_step": "num_experts_per_tok"}.get(name, "hidden_size")
    return sizes[source]


def _sized_by_parameters(preset: Preset, given: Sizes, parameters: int) -> Sizes:
    """Layers, width, heads and inner width, as far as not given, in the proportions of the family's defaults, so that
    the total comes nearest to `parameters`; empty: there is no such model."""
    best: Sizes = {}
    best_distance = INT64_MAX
    for layers in range(1, 257):
        sizes = _complete(preset, _at_depth(preset, given, layers))
        if preset.check(sizes):
            continue
        numel = _make(preset, sizes).total_numel()
        total = INT64_MAX if numel is None else numel
        if abs(total - parameters) < best_distance:
            best_distance = abs(total - parameters)
            best = sizes
        if total >= parameters:
            break
    return best


def _at_depth(preset: Preset, given: Sizes, layers: int) -> Sizes:
    """The family at a depth. Widths are multiples of 64; heads keep their width."""
    sizes = dict(given)
    sizes.setdefault(preset.layers, layers)
    default_width = preset.defaults[preset.hidden_size] or 0
    wished = layers * default_width // (preset.defaults[preset.layers] or 1)
    width = sizes.setdefault(preset.hidden_size, max(64, wished // 64 * 64))
    if preset.inner:
        inner = width * (preset.defaults[preset.inner] or 0) // default_width
        sizes.setdefault(preset.inner, max(64, inner // 64 * 64))
    if not preset.heads:
        return sizes
    head_width = default_width // (preset.defaults[preset.heads] or 1)
    heads = width // head_width if width % head_width == 0 else 1
    sizes.setdefault(preset.heads, heads)
    key_value = preset.defaults.get("num_key_value_heads")
    if key_value:
        sizes.setdefault("num_key_value_heads", min(key_value, heads))
    return sizes


def _read_lora(file: YamlFile, node: Node, preset: Preset, sizes: Sizes) -> Model:
    model = Model()
    model.add_root("root", "PeftModelForCausalLM")
    lora = model.add_module(0, "base_model", "LoraModel")
    base = preset.build(model, lora, "model", sizes)
    r = node.find("r")
    rank = 8 if r is None else file.count(r, "r", MAX_SIZE)
    names = node.find("target_modules")
    targets: List[str] = list(preset.lora_targets)
    if names is not None:
        targets = [file.text(name, "a module's name") for name in file.list(names, "target_modules")]
    if _wrap_in_lora(model, base, rank, targets) == 0:
        file.fail((names or node).place, "target_modules matches no linear layer")
    return model


def _wrap_in_lora(model: Model, top: int, rank: int, targets: List[str]) -> int:
    """PEFT's LoRA: everything frozen but adapters around each matrix whose name is in `targets`. Returns how many."""
    for module in model.modules:
        for param in module.params:
            param.requires_grad = False
    found: Set[int] = set()
    pending = [top]
    while pending:
        for name, child in model.modules[pending.pop()].children:
            params = model.modules[child].params
            if params and len(params[0].shape) == 2 and name in targets:
                found.add(child)
            pending.append(child)
    for index in sorted(found):
        _wrap_module(model, index, rank)
    return len(found)


def _wrap_module(model: Model, index: int, rank: int) -> None:
    """The module becomes PEFT's wrapper, its parameters move to a child base_layer."""
    make = Maker(model)
    module = model.modules[index]
    type_name, params = module.type, module.params
    outputs, inputs = params[0].shape if type_name != "Conv1D" else params[0].shape[::-1]
    module.type = "lora.Linear"
    module.params = []
    base = make.module(index, "base_layer", type_name)
    model.modules[base].params = params
    dropout = make.module(make.module(index, "lora_dropout", "ModuleDict"), "default", "Identity")
    down = make.linear(make.module(index, "lora_A", "ModuleDict"), "default", inputs, rank)
    up = make.linear(make.module(index, "lora_B", "ModuleDict"), "default", rank, outputs)
    for unused in ("lora_embedding_A", "lora_embedding_B"):
        make.module(index, unused, "ParameterDict")
    make.module(index, "lora_magnitude_vector", "ModuleDict")
    make.forward(index, base, dropout, down, up)
    for other in model.modules:
        for param in other.params:
            _follow(param, index, base)


def _follow(param: Param, moved: int, to: int) -> None:
    if param.same_as is not None and param.same_as[0] == moved:
        param.same_as = (to, param.same_as[1])


def _read_checkpointing(file: YamlFile, node: Node, model: Model) -> None:
    """Wraps each of the repeated layers, as gradient_checkpointing_enable() does."""
    wanted = node.find("gradient_checkpointing")
    if wanted is None or wanted.scalar == "false":
        return
    form = _CHECKPOINTING.get(wanted.scalar)
    if form is None:
        file.fail(wanted.place, "gradient_checkpointing must be true, reentrant, non_reentrant or whole_recompute")
    for extra in model.extra:
        for item in extra.forward or []:
            type_name = "" if item.module < 0 else model.modules[item.module].type
            if type_name.endswith("DecoderLayer") or type_name in ("GPT2Block", "T5Block"):
                item.checkpoint = form
