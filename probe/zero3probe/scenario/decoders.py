"""The families of LLaMA, as families.py builds the others: llama, mistral, qwen2, qwen3 and, with experts, mixtral,
qwen2_moe, qwen3_moe. transformers 5 holds all experts of a layer in two parameters."""
from typing import NamedTuple, Tuple

from zero3probe.scenario.families import Maker, Sizes
from zero3probe.scenario.model import Model, PlanItem


class Decoder(NamedTuple):
    """`package`: of transformers.models, for a family with experts. `rotary_in_attention`: of transformers 4."""
    family: str
    package: str = ""
    qkv_bias: bool = False
    qk_norm: bool = False
    rotary_in_attention: bool = False


LLAMA = Decoder("Llama")
MISTRAL = Decoder("Mistral")
QWEN2 = Decoder("Qwen2", qkv_bias=True)
QWEN3 = Decoder("Qwen3", qk_norm=True)
MIXTRAL = Decoder("Mixtral", "mixtral")
QWEN2_MOE = Decoder("Qwen2Moe", "qwen2_moe", rotary_in_attention=True)
QWEN3_MOE = Decoder("Qwen3Moe", "qwen3_moe", qk_norm=True)


def experts_of(sizes: Sizes) -> int:
    """How many an expert layer has; 1 where the family has none."""
    return sizes.get("num_local_experts", sizes.get("num_experts", 1))


def build_decoder(decoder: Decoder, model: Model, parent: int, name: str, sizes: Sizes) -> int:
    """embed_tokens, layers, norm, rotary_emb under `model`, lm_head beside it."""
    make = Maker(model)
    width, family = sizes["hidden_size"], decoder.family
    root = make.module(parent, name, family + "ForCausalLM")
    body = make.module(root, "model", family + "Model")
    embedding = make.embedding(body, "embed_tokens", sizes["vocab_size"], width)
    layers = make.list(body, "layers")
    for i in range(sizes["num_hidden_layers"]):
        layer = make.module(layers, str(i), family + "DecoderLayer")
        attention = _add_attention(make, layer, decoder, sizes)
        if _has_experts(decoder, i, sizes):
            feed_forward = _add_sparse_block(make, layer, decoder, sizes)
        else:
            feed_forward = _add_mlp(make, layer, "mlp", family + "MLP", sizes["intermediate_size"], sizes)
        input_norm = make.layer(layer, "input_layernorm", family + "RMSNorm", weight=[width])
        post_norm = make.layer(layer, "post_attention_layernorm", family + "RMSNorm", weight=[width])
        make.forward(layer, input_norm, attention, post_norm, feed_forward)
    norm = make.layer(body, "norm", family + "RMSNorm", weight=[width])
    rotary = make.module(body, "rotary_emb", family + "RotaryEmbedding")
    make.forward(body, embedding, rotary, layers, norm)
    make.head(root, sizes, embedding, width)
    return root


def _add_attention(make: Maker, layer: int, decoder: Decoder, sizes: Sizes) -> int:
    width, head = sizes["hidden_size"], sizes["head_dim"]
    inner, key_value = head * sizes["num_attention_heads"], head * sizes["num_key_value_heads"]
    bias = sizes.get("attention_bias", 0) != 0
    qkv_bias = bias or decoder.qkv_bias or sizes.get("qkv_bias", 0) != 0
    sdpa = decoder.rotary_in_attention and sizes["transformers"] != 5
    attention = make.module(layer, "self_attn", decoder.family + ("SdpaAttention" if sdpa else "Attention"))
    q = make.linear(attention, "q_proj", width, inner, qkv_bias)
    k = make.linear(attention, "k_proj", width, key_value, qkv_bias)
    v = make.linear(attention, "v_proj", width, key_value, qkv_bias)
    o = make.linear(attention, "o_proj", inner, width, bias)
    if sdpa:
        make.module(attention, "rotary_emb", decoder.family + "RotaryEmbedding")
    q_norm = k_norm = -1
    if decoder.qk_norm:
        q_norm = make.layer(attention, "q_norm", decoder.family + "RMSNorm", weight=[head])
        k_norm = make.layer(attention, "k_norm", decoder.family + "RMSNorm", weight=[head])
    make.forward(attention, q, q_norm, k, k_norm, v, o)
    return attention


def _add_mlp(make: Maker, parent: int, name: str, type_name: str, inner: int, sizes: Sizes) -> int:
    width, bias = sizes["hidden_size"], sizes.get("mlp_bias", 0) != 0
    mlp = make.module(parent, name, type_name)
    gate = make.linear(mlp, "gate_proj", width, inner, bias)
    up = make.linear(mlp, "up_proj", width, inner, bias)
    down = make.linear(mlp, "down_proj", inner, width, bias)
    make.forward(mlp, gate, make.module(mlp, "act_fn", "SiLUActivation"), up, down)
    return mlp


def _has_experts(decoder: Decoder, layer: int, sizes: Sizes) -> bool:
    if not decoder.package or sizes.get("mlp_only_layers.%d" % layer):
        return False
    return (layer + 1) % sizes.get("decoder_sparse_step", 1) == 0


def _add_sparse_block(make: Maker, layer: int, decoder: Decoder, sizes: Sizes) -> int:
    fused, mixtral = sizes["transformers"] == 5, decoder is MIXTRAL
    inner = sizes["intermediate_size" if mixtral else "moe_intermediate_size"]
    type_name = decoder.family + "SparseMoeBlock"
    block = make.module(layer, "block_sparse_moe" if mixtral and not fused else "mlp", type_name)
    make.model.modules[block].qualified_type = "transformers.models.%s.modeling_%s.%s" % (
        decoder.package, decoder.package, type_name)
    add = _add_fused_experts if fused else _add_expert_list
    gate, experts = add(make, block, decoder, inner, sizes)
    shared = shared_gate = -1
    if decoder is QWEN2_MOE:
        shared = _add_mlp(make, block, "shared_expert", "Qwen2MoeMLP",
                          sizes["shared_expert_intermediate_size"], sizes)
        shared_gate = make.linear(block, "shared_expert_gate", sizes["hidden_size"], 1)
    if fused:
        make.forward(block, shared, gate, experts, shared_gate)
        return block
    draw = PlanItem()
    draw.candidates = make.model.callable_children(experts)
    draw.drawn = sizes["experts_per_step"]
    draw.per_rank = sizes["experts_per_rank"] != 0
    last = [PlanItem(shared), PlanItem(shared_gate)] if shared >= 0 else []
    make.model.extra[block].forward = [PlanItem(gate), draw] + last
    return block


def _add_gate(make: Maker, block: int, decoder: Decoder, sizes: Sizes) -> int:
    type_name = decoder.family + "TopKRouter" if sizes["transformers"] == 5 else "Linear"
    return make.layer(block, "gate", type_name, weight=[experts_of(sizes), sizes["hidden_size"]])


def _add_fused_experts(make: Maker, block: int, decoder: Decoder, inner: int, sizes: Sizes) -> Tuple[int, int]:
    count, width = experts_of(sizes), sizes["hidden_size"]
    gate = -1 if decoder is QWEN3_MOE else _add_gate(make, block, decoder, sizes)
    experts = make.layer(block, "experts", decoder.family + "Experts", gate_up_proj=[count, 2 * inner, width],
                         down_proj=[count, width, inner])
    make.module(experts, "act_fn", "SiLUActivation")
    return (_add_gate(make, block, decoder, sizes) if gate < 0 else gate), experts


def _add_expert_list(make: Maker, block: int, decoder: Decoder, inner: int, sizes: Sizes) -> Tuple[int, int]:
    gate = _add_gate(make, block, decoder, sizes)
    experts = make.list(block, "experts")
    for i in range(experts_of(sizes)):
        if decoder is MIXTRAL:
            _add_mixtral_expert(make, experts, str(i), sizes["hidden_size"], inner)
        else:
            _add_mlp(make, experts, str(i), decoder.family + "MLP", inner, sizes)
    return gate, experts


def _add_mixtral_expert(make: Maker, experts: int, name: str, width: int, inner: int) -> None:
    expert = make.module(experts, name, "MixtralBlockSparseTop2MLP")
    w1 = make.linear(expert, "w1", width, inner)
    w2 = make.linear(expert, "w2", inner, width)
    w3 = make.linear(expert, "w3", width, inner)
    make.forward(expert, w1, make.module(expert, "act_fn", "SiLUActivation"), w3, w2)
