"""Models that people train, module by module as Hugging Face transformers (4.57 and 5.24) builds them: class, module and
parameter names, registration order, ties, and the order in which forward calls. Each function builds below `parent`
under `name`, or as the root where parent is -1, and returns its index. Sizes are those of config.json, all given; of
`transformers`, the major version. The families of LLaMA are in decoders.py."""
from typing import Dict, Sequence

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

    def linear(self, parent: int, name: str, inputs: int, outputs: int, bias: bool = False) -> int:
        biases = {"bias": [outputs]} if bias else {}
        return self.layer(parent, name, "Linear", weight=[outputs, inputs], **biases)

    def conv1d(self, parent: int, name: str, inputs: int, outputs: int) -> int:
        return self.layer(parent, name, "Conv1D", weight=[inputs, outputs], bias=[outputs])

    def embedding(self, parent: int, name: str, count: int, width: int) -> int:
        return self.layer(parent, name, "Embedding", weight=[count, width])

    def layer_norm(self, parent: int, name: str, width: int) -> int:
        return self.layer(parent, name, "LayerNorm", weight=[width], bias=[width])

    def forward(self, module: int, *calls: int) -> None:
        """What `module` calls, in order; modules of a ModuleList are called in its place. -1: nothing."""
        plan = []
        for call in (call for call in calls if call >= 0):
            container = self.model.extra[call].container
            called = self.model.callable_children(call) if container else [call]
            plan.extend(PlanItem(each) for each in called)
        self.model.extra[module].forward = plan

    def tied(self, parent: int, name: str, type_name: str, owner: int) -> int:
        """A layer with the weight of the embedding `owner`."""
        made = self.module(parent, name, type_name)
        self.model.modules[made].params.append(self.model.tied("weight", (owner, 0)))
        return made

    def head(self, parent: int, sizes: Sizes, owner: int, width: int) -> int:
        """lm_head, with the weight of `owner` if it is tied."""
        if sizes["tie_word_embeddings"]:
            return self.tied(parent, "lm_head", "Linear", owner)
        return self.linear(parent, "lm_head", width, sizes["vocab_size"])


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
    make.head(root, sizes, tokens, width)
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


def build_opt(model: Model, parent: int, name: str, sizes: Sizes) -> int:
    make = Maker(model)
    width, projected = sizes["hidden_size"], sizes["word_embed_proj_dim"]
    root = make.module(parent, name, "OPTForCausalLM")
    decoder = make.module(make.module(root, "model", "OPTModel"), "decoder", "OPTDecoder")
    tokens = make.embedding(decoder, "embed_tokens", sizes["vocab_size"], projected)
    positions = make.layer(decoder, "embed_positions", "OPTLearnedPositionalEmbedding",
                           weight=[sizes["max_position_embeddings"] + 2, width])
    project_out = project_in = norm = -1
    if projected != width:
        project_out = make.linear(decoder, "project_out", width, projected)
        project_in = make.linear(decoder, "project_in", projected, width)
    if sizes["do_layer_norm_before"] and not sizes["_remove_final_layer_norm"]:
        norm = _opt_norm(make, decoder, "final_layer_norm", sizes)
    layers = make.list(decoder, "layers")
    for i in range(sizes["num_hidden_layers"]):
        _add_opt_layer(make, layers, str(i), sizes)
    make.forward(decoder, tokens, positions, project_in, layers, norm, project_out)
    head = make.head(root, sizes, tokens, projected)
    make.forward(root, decoder, head)  # not model, which is passed by
    return root


def _opt_norm(make: Maker, parent: int, name: str, sizes: Sizes) -> int:
    if not sizes["layer_norm_elementwise_affine"]:
        return make.module(parent, name, "LayerNorm")
    return make.layer_norm(parent, name, sizes["hidden_size"])


def _add_opt_layer(make: Maker, layers: int, name: str, sizes: Sizes) -> None:
    width, inner, bias = sizes["hidden_size"], sizes["ffn_dim"], sizes["enable_bias"] != 0
    layer = make.module(layers, name, "OPTDecoderLayer")
    attention = make.module(layer, "self_attn", "OPTAttention")
    k, v, q, out = [make.linear(attention, each, width, width, bias)
                    for each in ("k_proj", "v_proj", "q_proj", "out_proj")]
    make.forward(attention, q, k, v, out)
    act = make.module(layer, "activation_fn", "ReLU")
    attention_norm = _opt_norm(make, layer, "self_attn_layer_norm", sizes)
    fc1 = make.linear(layer, "fc1", width, inner, bias)
    fc2 = make.linear(layer, "fc2", inner, width, bias)
    final_norm = _opt_norm(make, layer, "final_layer_norm", sizes)
    if sizes["do_layer_norm_before"]:
        make.forward(layer, attention_norm, attention, final_norm, fc1, act, fc2)
    else:
        make.forward(layer, attention, attention_norm, fc1, act, fc2, final_norm)


def build_bloom(model: Model, parent: int, name: str, sizes: Sizes) -> int:
    make = Maker(model)
    width = sizes["hidden_size"]
    root = make.module(parent, name, "BloomForCausalLM")
    body = make.module(root, "transformer", "BloomModel")
    tokens = make.embedding(body, "word_embeddings", sizes["vocab_size"], width)
    token_norm = make.layer_norm(body, "word_embeddings_layernorm", width)
    blocks = make.list(body, "h")
    for i in range(sizes["n_layer"]):
        _add_bloom_block(make, blocks, str(i), width)
    norm = make.layer_norm(body, "ln_f", width)
    make.forward(body, tokens, token_norm, blocks, norm)
    make.head(root, sizes, tokens, width)
    return root


def _add_bloom_block(make: Maker, blocks: int, name: str, width: int) -> None:
    block = make.module(blocks, name, "BloomBlock")
    input_norm = make.layer_norm(block, "input_layernorm", width)
    attention = make.module(block, "self_attention", "BloomAttention")
    qkv = make.linear(attention, "query_key_value", width, 3 * width, True)
    dense = make.linear(attention, "dense", width, width, True)
    make.forward(attention, qkv, make.module(attention, "attention_dropout", "Dropout"), dense)
    post_norm = make.layer_norm(block, "post_attention_layernorm", width)
    mlp = make.module(block, "mlp", "BloomMLP")
    up = make.linear(mlp, "dense_h_to_4h", width, 4 * width, True)
    act = make.module(mlp, "gelu_impl", "BloomGelu")
    make.forward(mlp, up, act, make.linear(mlp, "dense_4h_to_h", 4 * width, width, True))
    make.forward(block, input_norm, attention, post_norm, mlp)


def build_t5(model: Model, parent: int, name: str, sizes: Sizes) -> int:
    make = Maker(model)
    root = make.module(parent, name, "T5ForConditionalGeneration")
    shared = make.embedding(root, "shared", sizes["vocab_size"], sizes["d_model"])
    encoder = _add_t5_stack(make, root, "encoder", shared, sizes["num_layers"], sizes)
    decoder = _add_t5_stack(make, root, "decoder", shared, sizes["num_decoder_layers"], sizes)
    if sizes["transformers"] == 5:  # it ties whatever the config says
        sizes = {**sizes, "tie_word_embeddings": 1}
    make.forward(root, encoder, decoder, make.head(root, sizes, shared, sizes["d_model"]))
    return root


def _add_t5_stack(make: Maker, root: int, name: str, shared: int, blocks: int, sizes: Sizes) -> int:
    width = sizes["d_model"]
    stack = make.module(root, name, "T5Stack")
    embedding = shared
    if sizes["transformers"] == 5:  # a module of its own, with the same weight
        embedding = make.tied(stack, "embed_tokens", "Embedding", shared)
    else:
        make.model.modules[stack].children.append(("embed_tokens", shared))
    block_list = make.list(stack, "block")
    for i in range(blocks):
        layers = make.list(make.module(block_list, str(i), "T5Block"), "layer")
        _add_t5_attention(make, layers, "0", False, i == 0, sizes)
        if name == "decoder":
            _add_t5_attention(make, layers, "1", True, False, sizes)
        _add_t5_feed_forward(make, layers, "2" if name == "decoder" else "1", sizes)
    norm = make.layer(stack, "final_layer_norm", "T5LayerNorm", weight=[width])
    dropout = make.module(stack, "dropout", "Dropout")
    make.forward(stack, embedding, dropout, block_list, norm, dropout)
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


def _add_t5_feed_forward(make: Maker, layers: int, name: str, sizes: Sizes) -> None:
    width, inner, gated = sizes["d_model"], sizes["d_ff"], sizes["feed_forward_proj"] != 0
    layer = make.module(layers, name, "T5LayerFF")
    dense = make.module(layer, "DenseReluDense", "T5DenseGatedActDense" if gated else "T5DenseActDense")
    wi = make.linear(dense, "wi_0" if gated else "wi", width, inner)
    wi_1 = make.linear(dense, "wi_1", width, inner) if gated else -1
    wo = make.linear(dense, "wo", inner, width)
    dropout = make.module(dense, "dropout", "Dropout")
    act = make.module(dense, "act", "NewGELUActivation" if gated else "ReLU")
    make.forward(dense, wi, act, wi_1, dropout, wo)
    norm = make.layer(layer, "layer_norm", "T5LayerNorm", weight=[width])
    make.forward(layer, norm, dense, make.module(layer, "dropout", "Dropout"))
