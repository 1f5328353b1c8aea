"""Models that people train, module by module as Hugging Face transformers (4.x) builds them: class, module and
parameter names, registration order, ties, and the order in which forward calls. Each function builds below `parent`
under `name`, or as the root where parent is -1, and returns its index. Sizes are those of config.json, all given."""
from typing import Callable, Dict, Sequence

from zero3probe.scenario.model import Model, PlanItem

Sizes = Dict[str, int]


class Maker:
    """Layers, and the order in which a forward calls them."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def module(self, parent: int, name: str, type_name: str) -> int:
        if parent < 0:
            return self.model.add_root(name, type_name)
        return self.model.add_module(parent, name, type_name)

    def list(self, parent: int, name: str) -> int:
        return self.module(parent, name, "ModuleList")

    def layer(self, parent: int, name: str, type_name: str, **params: Sequence[int]) -> int:
        made = self.module(parent, name, type_name)
        for param, shape in params.items():
            self.model.add_param(made, param, shape)
        return made

    def linear(self, parent: int, name: str, inputs: int, outputs: int) -> int:
        return self.layer(parent, name, "Linear", weight=[outputs, inputs])

    def conv1d(self, parent: int, name: str, inputs: int, outputs: int) -> int:
        return self.layer(parent, name, "Conv1D", weight=[inputs, outputs], bias=[outputs])

    def embedding(self, parent: int, name: str, count: int, width: int) -> int:
        return self.layer(parent, name, "Embedding", weight=[count, width])

    def layer_norm(self, parent: int, name: str, width: int) -> int:
        return self.layer(parent, name, "LayerNorm", weight=[width], bias=[width])

    def forward(self, module: int, *calls: int) -> None:
        """What `module` calls, in order; modules of a ModuleList are called in its place."""
        plan = []
        for call in calls:
            container = self.model.extra[call].container
            called = self.model.callable_children(call) if container else [call]
            plan.extend(PlanItem(each) for each in called)
        self.model.extra[module].forward = plan

    def head(self, parent: int, tied: bool, owner: int, width: int, vocabulary: int) -> int:
        """lm_head, with the weight of `owner` if it is tied."""
        if not tied:
            return self.linear(parent, "lm_head", width, vocabulary)
        head = self.module(parent, "lm_head", "Linear")
        self.model.modules[head].params.append(self.model.tied("weight", (owner, 0)))
        return head


def build_mlp(model: Model, parent: int, name: str, sizes: Sizes) -> int:
    make = Maker(model)
    root = make.module(parent, name, "Sequential")
    width, layers = sizes["hidden_size"], sizes["num_layers"]
    for i in range(layers):
        inputs = sizes["input_size"] if i == 0 else width
        outputs = sizes["output_size"] if i == layers - 1 else width
        make.layer(root, str(2 * i), "Linear", weight=[outputs, inputs], bias=[outputs])
        if i < layers - 1:
            make.module(root, str(2 * i + 1), "ReLU")
    return root


def build_gpt(model: Model, parent: int, name: str, sizes: Sizes) -> int:
    make = Maker(model)
    width = sizes["n_embd"]
    root = make.module(parent, name, "GPT2LMHeadModel")
    body = make.module(root, "transformer", "GPT2Model")
    tokens = make.embedding(body, "wte", sizes["vocab_size"], width)
    positions = make.embedding(body, "wpe", sizes["n_positions"], width)
    drop = make.module(body, "drop", "Dropout")
    blocks = make.list(body, "h")
    for i in range(sizes["n_layer"]):
        _add_gpt_block(make, blocks, str(i), width, sizes["n_inner"])
    norm = make.layer_norm(body, "ln_f", width)
    make.forward(body, tokens, positions, drop, blocks, norm)
    make.head(root, sizes["tie_word_embeddings"] != 0, tokens, width, sizes["vocab_size"])
    return root


def _add_gpt_block(make: Maker, blocks: int, name: str, width: int, inner: int) -> None:
    block = make.module(blocks, name, "GPT2Block")
    first_norm = make.layer_norm(block, "ln_1", width)
    attention = make.module(block, "attn", "GPT2Attention")
    c_attn = make.conv1d(attention, "c_attn", width, 3 * width)
    c_proj = make.conv1d(attention, "c_proj", width, width)
    make.module(attention, "attn_dropout", "Dropout")  # scaled_dot_product_attention does its work
    make.forward(attention, c_attn, c_proj, make.module(attention, "resid_dropout", "Dropout"))
    second_norm = make.layer_norm(block, "ln_2", width)
    mlp = make.module(block, "mlp", "GPT2MLP")
    c_fc = make.conv1d(mlp, "c_fc", width, inner)
    out = make.conv1d(mlp, "c_proj", inner, width)
    act = make.module(mlp, "act", "NewGELUActivation")
    make.forward(mlp, c_fc, act, out, make.module(mlp, "dropout", "Dropout"))
    make.forward(block, first_norm, attention, second_norm, mlp)


def _build_decoder_only(model: Model, parent: int, name: str, family: str, sizes: Sizes,
                        add_layer: Callable[[Maker, int], int]) -> int:
    """embed_tokens, layers, norm, rotary_emb under `model`, lm_head beside it: LLaMA, Mixtral and their kin."""
    make = Maker(model)
    width = sizes["hidden_size"]
    root = make.module(parent, name, family + "ForCausalLM")
    body = make.module(root, "model", family + "Model")
    embedding = make.embedding(body, "embed_tokens", sizes["vocab_size"], width)
    layers = make.list(body, "layers")
    key_value = width // sizes["num_attention_heads"] * sizes["num_key_value_heads"]
    for i in range(sizes["num_hidden_layers"]):
        layer = make.module(layers, str(i), family + "DecoderLayer")
        attention = make.module(layer, "self_attn", family + "Attention")
        for projection, outputs in (("q_proj", width), ("k_proj", key_value), ("v_proj", key_value),
                                    ("o_proj", width)):
            make.linear(attention, projection, width, outputs)
        feed_forward = add_layer(make, layer)
        input_norm = make.layer(layer, "input_layernorm", family + "RMSNorm", weight=[width])
        post_norm = make.layer(layer, "post_attention_layernorm", family + "RMSNorm", weight=[width])
        make.forward(layer, input_norm, attention, post_norm, feed_forward)
    norm = make.layer(body, "norm", family + "RMSNorm", weight=[width])
    rotary = make.module(body, "rotary_emb", family + "RotaryEmbedding")
    make.forward(body, embedding, rotary, layers, norm)
    make.head(root, sizes["tie_word_embeddings"] != 0, embedding, width, sizes["vocab_size"])
    return root


def build_llama(model: Model, parent: int, name: str, sizes: Sizes) -> int:
    width, inner = sizes["hidden_size"], sizes["intermediate_size"]

    def add_mlp(make: Maker, layer: int) -> int:
        mlp = make.module(layer, "mlp", "LlamaMLP")
        gate = make.linear(mlp, "gate_proj", width, inner)
        up = make.linear(mlp, "up_proj", width, inner)
        down = make.linear(mlp, "down_proj", inner, width)
        make.forward(mlp, gate, make.module(mlp, "act_fn", "SiLU"), up, down)
        return mlp

    return _build_decoder_only(model, parent, name, "Llama", sizes, add_mlp)


def build_mixtral(model: Model, parent: int, name: str, sizes: Sizes) -> int:
    width, inner = sizes["hidden_size"], sizes["intermediate_size"]

    def add_experts(make: Maker, layer: int) -> int:
        moe = make.module(layer, "block_sparse_moe", "MixtralSparseMoeBlock")
        gate = make.linear(moe, "gate", width, sizes["num_local_experts"])
        experts = make.list(moe, "experts")
        for i in range(sizes["num_local_experts"]):
            expert = make.module(experts, str(i), "MixtralBlockSparseTop2MLP")
            w1 = make.linear(expert, "w1", width, inner)
            w2 = make.linear(expert, "w2", inner, width)
            w3 = make.linear(expert, "w3", width, inner)
            make.forward(expert, w1, make.module(expert, "act_fn", "SiLU"), w3, w2)
        draw = PlanItem()
        draw.candidates = model.callable_children(experts)
        draw.drawn = sizes["experts_per_step"]
        draw.per_rank = sizes["experts_per_rank"] != 0
        model.extra[moe].forward = [PlanItem(gate), draw]
        return moe

    return _build_decoder_only(model, parent, name, "Mixtral", sizes, add_experts)


def build_t5(model: Model, parent: int, name: str, sizes: Sizes) -> int:
    make = Maker(model)
    root = make.module(parent, name, "T5ForConditionalGeneration")
    shared = make.embedding(root, "shared", sizes["vocab_size"], sizes["d_model"])
    encoder = _add_t5_stack(make, root, "encoder", shared, sizes["num_layers"], sizes)
    decoder = _add_t5_stack(make, root, "decoder", shared, sizes["num_decoder_layers"], sizes)
    head = make.head(root, sizes["tie_word_embeddings"] != 0, shared, sizes["d_model"], sizes["vocab_size"])
    make.forward(root, encoder, decoder, head)
    return root


def _add_t5_stack(make: Maker, root: int, name: str, shared: int, blocks: int, sizes: Sizes) -> int:
    width = sizes["d_model"]
    stack = make.module(root, name, "T5Stack")
    make.model.modules[stack].children.append(("embed_tokens", shared))
    block_list = make.list(stack, "block")
    for i in range(blocks):
        layers = make.list(make.module(block_list, str(i), "T5Block"), "layer")
        _add_t5_attention(make, layers, "0", False, i == 0, sizes)
        if name == "decoder":
            _add_t5_attention(make, layers, "1", True, False, sizes)
        _add_t5_feed_forward(make, layers, "2" if name == "decoder" else "1", width, sizes["d_ff"])
    norm = make.layer(stack, "final_layer_norm", "T5LayerNorm", weight=[width])
    dropout = make.module(stack, "dropout", "Dropout")
    make.forward(stack, shared, dropout, block_list, norm, dropout)
    return stack


def _add_t5_attention(make: Maker, layers: int, name: str, cross: bool, bias: bool, sizes: Sizes) -> None:
    width, inner = sizes["d_model"], sizes["num_heads"] * sizes["d_kv"]
    layer = make.module(layers, name, "T5LayerCrossAttention" if cross else "T5LayerSelfAttention")
    attention = make.module(layer, "EncDecAttention" if cross else "SelfAttention", "T5Attention")
    q, k, v = [make.linear(attention, each, width, inner) for each in ("q", "k", "v")]
    o = make.linear(attention, "o", inner, width)
    if bias:
        buckets = make.embedding(attention, "relative_attention_bias", sizes["relative_attention_num_buckets"],
                                 sizes["num_heads"])
        make.forward(attention, q, k, v, buckets, o)
    else:
        make.forward(attention, q, k, v, o)
    norm = make.layer(layer, "layer_norm", "T5LayerNorm", weight=[width])
    make.forward(layer, norm, attention, make.module(layer, "dropout", "Dropout"))


def _add_t5_feed_forward(make: Maker, layers: int, name: str, width: int, inner: int) -> None:
    layer = make.module(layers, name, "T5LayerFF")
    dense = make.module(layer, "DenseReluDense", "T5DenseActDense")
    wi = make.linear(dense, "wi", width, inner)
    wo = make.linear(dense, "wo", inner, width)
    dropout = make.module(dense, "dropout", "Dropout")
    act = make.module(dense, "act", "ReLU")
    make.forward(dense, wi, act, dropout, wo)
    norm = make.layer(layer, "layer_norm", "T5LayerNorm", weight=[width])
    make.forward(layer, norm, dense, make.module(layer, "dropout", "Dropout"))
