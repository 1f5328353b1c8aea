"""A `model` that is a preset: its sizes, LoRA around it, gradient checkpointing, a given number of parameters."""
import functools
from typing import Callable, Dict, List, NamedTuple, Optional, Set, Tuple

from zero3probe.run import Param
from zero3probe.scenario import decoders, families
from zero3probe.scenario.families import Maker, Sizes
from zero3probe.scenario.model import Model
from zero3probe.scenario.yaml_file import INT64_MAX, Node, YamlFile

MAX_SIZE = 1 << 31
MAX_MODULES = 200000
_COMMON_KEYS = ("preset", "parameters", "gradient_checkpointing", "freeze", "leaf_modules", "other_roots")
_CHECKPOINTING = {"true": "non-reentrant", "non_reentrant": "non-reentrant", "reentrant": "reentrant",
                  "whole_recompute": "whole-recompute"}
_FLAGS = ("tie_word_embeddings", "experts_per_rank", "attention_bias", "mlp_bias", "qkv_bias",
          "do_layer_norm_before", "_remove_final_layer_norm", "enable_bias", "layer_norm_elementwise_affine")
_LAYERS = ("mlp_only_layers",)  # lists of layers, each an entry of its own: "mlp_only_layers.3"
_WORDS = {"feed_forward_proj": ("relu", "gated-gelu")}


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


def _not_a_multiple(sizes: Sizes, whole: str, part: str) -> str:
    if sizes[part] != 0 and sizes[whole] % sizes[part] == 0:
        return ""
    return "%s %d is not a multiple of %s %d" % (whole, sizes[whole], part, sizes[part])


def _check_gpt(sizes: Sizes) -> str:
    return _not_a_multiple(sizes, "n_embd", "n_head")


def _check_bloom(sizes: Sizes) -> str:
    return _not_a_multiple(sizes, "hidden_size", "n_head")


def _check_opt(sizes: Sizes) -> str:
    return _not_a_multiple(sizes, "hidden_size", "num_attention_heads")


def _check_heads(sizes: Sizes) -> str:
    """A head_dim of its own need not fit the width."""
    heads = sizes["num_attention_heads"]
    own = heads != 0 and sizes["head_dim"] != sizes["hidden_size"] // heads
    return (not own and _check_opt(sizes)) or _not_a_multiple(sizes, "num_attention_heads",
                                                              "num_key_value_heads")


def _check_experts(sizes: Sizes) -> str:
    drawn, experts = sizes["experts_per_step"], decoders.experts_of(sizes)
    if not 1 <= drawn <= experts:
        count = "num_experts" if "num_experts" in sizes else "num_local_experts"
        return "experts_per_step %d of %s %d" % (drawn, count, experts)
    return _check_heads(sizes)


_TIED = {"tie_word_embeddings": 1, "transformers": 4}
_UNTIED = {"tie_word_embeddings": 0, "transformers": 4}
_MLP = {"hidden_size": 1024, "num_layers": 4, "input_size": None, "output_size": None}
_GPT = {"n_embd": 768, "n_layer": 12, "n_head": None, "n_inner": None, "vocab_size": 50257,
        "n_positions": 1024, **_TIED}
_BLOOM = {"hidden_size": 64, "n_layer": 2, "n_head": 8, "vocab_size": 250880, **_TIED}
_OPT = {"hidden_size": 768, "ffn_dim": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
        "vocab_size": 50272, "max_position_embeddings": 2048, "word_embed_proj_dim": None,
        "do_layer_norm_before": 1, "_remove_final_layer_norm": 0, "enable_bias": 1,
        "layer_norm_elementwise_affine": 1, **_TIED}
_T5 = {"d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 6, "num_heads": 8, "num_decoder_layers": None,
       "vocab_size": 32128, "relative_attention_num_buckets": 32, "feed_forward_proj": 0, **_TIED}
_DECODER = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
            "num_key_value_heads", "head_dim", "vocab_size")


def _decoder(family: decoders.Decoder, name: str, sizes: Tuple[Optional[int], ...],
             more: Dict[str, Optional[int]], check: Callable[[Sizes], str] = _check_heads) -> Preset:
    """A family of LLaMA; `sizes` are those of _DECODER."""
    return Preset(name, "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                  {**dict(zip(_DECODER, sizes)), **more, **_UNTIED},
                  functools.partial(decoders.build_decoder, family), check, ("q_proj", "v_proj"))


def _experts(count: str, experts: int, per_token: int) -> Dict[str, Optional[int]]:
    return {count: experts, "experts_per_step": None, "num_experts_per_tok": per_token, "experts_per_rank": 0}


_PRESETS = (
    Preset("mlp", "hidden_size", "num_layers", "", "", _MLP, families.build_mlp, _nothing_to_check, ()),
    Preset("gpt", "n_embd", "n_layer", "", "", _GPT, families.build_gpt, _check_gpt, ("c_attn",)),
    Preset("bloom", "hidden_size", "n_layer", "n_head", "", _BLOOM, families.build_bloom, _check_bloom,
           ("query_key_value",)),
    Preset("t5", "d_model", "num_layers", "num_heads", "d_ff", _T5, families.build_t5, _nothing_to_check,
           ("q", "v")),
    _decoder(decoders.LLAMA, "llama", (4096, 11008, 32, 32, None, None, 32000),
             {"attention_bias": 0, "mlp_bias": 0}),
    _decoder(decoders.MISTRAL, "mistral", (4096, 14336, 32, 32, 8, None, 32000), {}),
    _decoder(decoders.QWEN2, "qwen2", (4096, 22016, 32, 32, 32, None, 151936), {}),
    _decoder(decoders.QWEN3, "qwen3", (4096, 22016, 32, 32, 32, 128, 151936), {"attention_bias": 0}),
    _decoder(decoders.MIXTRAL, "mixtral", (4096, 14336, 32, 32, 8, None, 32000),
             _experts("num_local_experts", 8, 2), _check_experts),
    _decoder(decoders.QWEN2_MOE, "qwen2_moe", (2048, 5632, 24, 16, 16, None, 151936),
             {**_experts("num_experts", 60, 4), "moe_intermediate_size": 1408,
              "shared_expert_intermediate_size": 5632, "decoder_sparse_step": 1, "mlp_only_layers": 0,
              "qkv_bias": 1}, _check_experts),
    _decoder(decoders.QWEN3_MOE, "qwen3_moe", (2048, 6144, 24, 32, 4, None, 151936),
             {**_experts("num_experts", 128, 8), "moe_intermediate_size": 768, "decoder_sparse_step": 1,
              "mlp_only_layers": 0, "attention_bias": 0}, _check_experts),
    Preset("opt", "hidden_size", "num_hidden_layers", "num_attention_heads", "ffn_dim", _OPT,
           families.build_opt, _check_opt, ("q_proj", "v_proj")),
)
PRESETS = {preset.name: preset for preset in _PRESETS}


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
    sizes: Sizes = {}
    for name in preset.defaults:
        value = node.find(name)
        if value is not None:
            _read_size(file, value, name, sizes)
    parameters = node.find("parameters")
    if parameters is not None:
        sizes = _sized_by_parameters(preset, sizes, file.count(parameters, "parameters"))
        if not sizes:
            file.fail(parameters.place, "no model of this family has these sizes")
    sizes = _complete(preset, sizes)
    wrong = preset.check(sizes)
    if wrong:
        file.fail(node.place, wrong)
    if sizes[preset.layers] > MAX_MODULES // decoders.experts_of(sizes):
        file.fail(node.place, "the model has too many layers")
    return sizes


def _read_size(file: YamlFile, value: Node, name: str, sizes: Sizes) -> None:
    if name in _FLAGS:
        sizes[name] = int(file.boolean(value, name))
    elif name in _LAYERS:
        for layer in file.list(value, name):
            sizes["%s.%d" % (name, file.count(layer, "a layer", MAX_SIZE))] = 1
    elif name in _WORDS:
        if file.text(value, name) not in _WORDS[name]:
            file.fail(value.place, "%s must be %s" % (name, " or ".join(_WORDS[name])))
        sizes[name] = _WORDS[name].index(value.scalar)
    else:
        sizes[name] = file.count(value, name, MAX_SIZE)
        if sizes[name] == 0:
            file.fail(value.place, name + " is 0")
        if name == "transformers" and sizes[name] not in (4, 5):
            file.fail(value.place, "transformers must be 4 or 5")


def _complete(preset: Preset, given: Sizes) -> Sizes:
    """The sizes with their defaults filled in."""
    sizes = dict(given)
    wanted = [name for name in preset.defaults if name not in _LAYERS]
    for name in wanted:
        value = preset.defaults[name]
        if value is not None:
            sizes.setdefault(name, value)
    for name in wanted:
        if name not in sizes:
            sizes[name] = _derived(name, sizes)
    return sizes


def _derived(name: str, sizes: Sizes) -> int:
    if name == "n_inner":
        return 4 * sizes["n_embd"]
    if name == "n_head":
        return 12 if sizes["n_embd"] % 12 == 0 else 1
    if name == "head_dim":
        return sizes["hidden_size"] // max(1, sizes["num_attention_heads"])
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
            if type_name.endswith("DecoderLayer") or type_name in ("GPT2Block", "T5Block", "BloomBlock"):
                item.checkpoint = form
