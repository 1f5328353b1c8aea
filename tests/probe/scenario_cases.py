"""Scenarios made for the comparison of both readers: every preset and feature; and files that both must refuse."""
from typing import Dict, Iterator, List

HEAD = "zero3sim: 1\n"

PRESETS = (
    "{preset: mlp}", "{preset: mlp, hidden_size: 8, num_layers: 3, input_size: 5, output_size: 1}",
    "{preset: mlp, parameters: 5e6}",
    "{preset: gpt, n_embd: 64, n_layer: 2, vocab_size: 100, gradient_checkpointing: true}",
    "{preset: gpt, n_layer: 1, tie_word_embeddings: false, n_inner: 10}", "{preset: gpt, parameters: 3e7}",
    "{preset: llama, hidden_size: 64, num_hidden_layers: 3, num_attention_heads: 4, num_key_value_heads: 2,"
    " gradient_checkpointing: reentrant, leaf_modules: [LlamaMLP], freeze: [model.embed_tokens, lm_head.weight]}",
    "{preset: llama, parameters: 7e9, tie_word_embeddings: true}", "{preset: llama, parameters: 5_000_000}",
    "{preset: t5}", "{preset: t5, num_layers: 1, num_decoder_layers: 2, tie_word_embeddings: false,"
    " gradient_checkpointing: whole_recompute}", "{preset: t5, parameters: 1.5e8}",
    "{preset: mixtral, num_hidden_layers: 2}",
    "{preset: mixtral, num_hidden_layers: 3, num_local_experts: 5, experts_per_step: 3, experts_per_rank: true,"
    " gradient_checkpointing: non_reentrant}", "{preset: mixtral, parameters: 1e9, num_experts_per_tok: 1}",
    "{preset: llama, num_hidden_layers: 1, attention_bias: true, mlp_bias: true, head_dim: 100}",
    "{preset: mistral, num_hidden_layers: 1, tie_word_embeddings: true}", "{preset: mistral, parameters: 7e9}",
    "{preset: qwen2, num_hidden_layers: 2}", "{preset: qwen3, num_hidden_layers: 2, transformers: 5}",
    "{preset: qwen3, num_hidden_layers: 1, attention_bias: true, tie_word_embeddings: true}",
    "{preset: qwen3, parameters: 4e8}", "{preset: mixtral, num_hidden_layers: 2, transformers: 5}",
    "{preset: qwen2_moe, num_hidden_layers: 3, num_experts: 5, mlp_only_layers: [1], qkv_bias: false}",
    "{preset: qwen2_moe, num_hidden_layers: 2, decoder_sparse_step: 2, transformers: 5}",
    "{preset: qwen3_moe, num_hidden_layers: 4, num_experts: 9, mlp_only_layers: [0, 2], experts_per_step: 3}",
    "{preset: qwen3_moe, num_hidden_layers: 1, transformers: 5, head_dim: 64}",
    "{preset: opt, num_hidden_layers: 2}", "{preset: opt, word_embed_proj_dim: 512, do_layer_norm_before: false}",
    "{preset: opt, num_hidden_layers: 1, enable_bias: false, layer_norm_elementwise_affine: false,"
    " _remove_final_layer_norm: true, gradient_checkpointing: true}", "{preset: opt, parameters: 1e8}",
    "{preset: bloom}", "{preset: bloom, hidden_size: 128, n_layer: 3, n_head: 4, tie_word_embeddings: false,"
    " gradient_checkpointing: reentrant}", "{preset: bloom, parameters: 5e8}", "{preset: gpt, n_head: 6}",
    "{preset: t5, num_layers: 1, feed_forward_proj: gated-gelu, transformers: 5}",
    "{preset: t5, num_layers: 1, transformers: 5, tie_word_embeddings: false}",
    "{preset: lora, base: qwen3_moe, num_hidden_layers: 1, num_experts: 8}",
    "{preset: lora, base: bloom, n_layer: 1, r: 4}",
    "{preset: lora, base: llama, num_hidden_layers: 2, r: 4}",
    "{preset: lora, base: gpt, n_layer: 2, gradient_checkpointing: true}",
    "{preset: lora, base: t5, num_layers: 1, target_modules: [q, wi, lm_head]}",
    "{preset: lora, base: llama, num_hidden_layers: 1, tie_word_embeddings: true,"
    " target_modules: [embed_tokens, lm_head]}",
    "{preset: lora, base: mixtral, num_hidden_layers: 2, target_modules: [w1, w2]}",
)

LAYERS = """  type: "Top"
  params: {scale: 4, table: [3, 5], cold: {shape: [2], requires_grad: false}}
  outputs: 2
  children:
    fc1: Linear(1_0, 2e1, bias=False)
    fc2: Linear(in_features=4, out_features=5)
    emb: "Embedding(7, 3, padding_idx=0)"
    ln: LayerNorm((8,), eps=1e-05, elementwise_affine=True)
    plain: LayerNorm(8, elementwise_affine=False)
    half: LayerNorm(8, bias=False)
    rms: RMSNorm(8)
    bn: BatchNorm2d(6)
    c1: Conv1D(24, 8)
    c2: Conv2d(3, 8, kernel_size=(3, 3), stride=(1, 1))
    drop: Dropout(p=0.1)
    act:
    none: ~
    custom: some.lib.Layer
"""

NESTED = """  children:
    block:
      type: Block
      params: {w: [4, 4]}
      children:
        attn: {type: Attention, children: {q: "Linear(4, 4)", k: "Linear(4, 4)"}, forward: q k q}
        mlp: {type: MLP, leaf: true, outputs: 3, children: {up: "Linear(4, 8)", down: "Linear(8, 4)"}}
      forward: [attn:checkpoint mlp, "mlp[up]"]
    layers:
      type: ModuleList
      children:
        "0": {children: {a: "Linear(2, 2)"}, external: [block.w, {param: block.mlp.up.bias, registered: true}]}
        "1": {same_as: block}
        "2": {children: {inner: {type: ModuleDict, children: {x: ReLU, y: "Linear(1, 1)"}}}}
        "3": {params: {t: {same_as: block.attn.q.weight}}, frozen: true, children: {z: "Linear(3, 3)"}}
        "4": {same_as: layers.2}
    last: {same_as: layers.1.mlp}
  freeze: [block.attn.k, block.w]
  leaf_modules: [Attention, layers.0]
  other_roots:
    critic: {children: {body: {same_as: block}, head: "Linear(4, 1)"}, forward: body head critic.body}
"""

PLAIN = "  children: {A: \"Linear(8, 8, bias=False)\", B: \"Linear(8, 8)\", C: \"Linear(8, 1)\"}\n"

NESTED_PROGRAM = """plans:
  short: block layers.*
  empty: []
  other: [short, "last[up]"]
engines: [{name: actor}, {name: critic, root: critic, optimizer: false}]
program:
  - train
  - train: block:reentrant:detach[attn:discard[k] mlp] layers
  - train: other
  - forward: layers.?2 layers.0[a]
    grad: false
  - forward: layers.?3:per_rank block[]
  - forward: {direct}
  - evaluate: all
    engine: critic
  - {train: body head, engine: 1, overflow: true}
  - gather: [block.w, block.attn, all]
    modifier_rank: 0
    do: [forward: block, {unwrap_model_for_generation: [forward, evaluate]}]
  - {gather: layers.3.t, modifier_rank: None}
  - {backward: , engine: critic}
  - eval_mode: [block, layers.3]
  - {train_mode: body, engine: 1}
""".replace("forward: {direct}", "forward: block\n    direct: true")

CHOICES = """program:
  - repeat: 4
    do:
      - choose: [[train: A], {weight: 3, do: [train: A B]}, {weight: 0, do: [train: C]}, []]
      - when: {iteration: [1, 3]}
        do: [{train: "*"}]
        else: [overflowing_step, eval_mode, train_mode]
      - {choose: [[{train: B}], [{train: C}]], per_rank: true}
      - {repeat: 2, do: [{train: "?2"}, {forward: "?1:per_rank", grad: false}]}
  - {when: {rank: [0, 9]}, do: [save_16bit_model], else: [save_fp16_model, consolidated_16bit_state_dict]}
  - {when: {rank: [1, 2]}, do: [save_checkpoint, load_checkpoint, register_hooks_again]}
  - unwrap_model_for_generation
  - [empty_partition_cache]
""".replace("  - [empty_partition_cache]\n", "  - empty_partition_cache\n  - offload_states\n  - reload_states\n")

CONFIGS = (
    "{zero_optimization: {stage: 3}}",
    "{zero_optimization: {stage: 3, stage3_allgather_sequential: true}}",
    "{zero_optimization: {stage: 3, allgather_sequential: true, stage3_allgather_sequential: false}}",
    "{gradient_accumulation_steps: 0x4, zero_optimization: {stage: 3}}".replace("0x4", "\"4\""),
    "{train_batch_size: auto, fp16: {enabled: true, loss_scale: 0}, zero_optimization: {stage: 3,"
    " stage3_prefetch_bucket_size: 3e7, max_live_parameters: 1.5e9, stage3_max_reuse_distance: 0,"
    " stage3_param_persistence_threshold: \"1_000\", stage3_model_persistence_threshold: 9223372036854775807,"
    " stage3_gather_fp16_weights_on_model_save: true, log_trace_cache_warnings: True, overlap_comm: true,"
    " offload_param: {device: cpu}, mics_shard_size: -1, leaf_module: {}}}",
    "{fp16: {enabled: auto}, bf16: {enabled: auto}}",
)


def good() -> Iterator[str]:
    """Scenario texts that both readers take."""
    for preset in PRESETS:
        yield HEAD + "model: " + preset + "\nprogram: [{repeat: 3, do: [train, {forward: all, grad: false}]}]\n"
    yield HEAD + "model:\n" + LAYERS + "program: [train]\n"
    yield HEAD + "model:\n" + NESTED + NESTED_PROGRAM
    yield HEAD + "seed: 11\nranks: 4\nname: \"\\xe9\\t\\\"quoted\\\"\"\nmodel:\n" + PLAIN + CHOICES
    for config in CONFIGS:
        text = HEAD + "input_requires_grad: true\nmodel:\n" + PLAIN
        yield text + "deepspeed_config: " + config + "\nprogram: [step]\n"
    yield '{"zero3sim": 1, "model": {"children": {"A": "ReLU"}}, "program": ["train"]}\n'
    long_names = " ".join("A" for _ in range(60))
    yield HEAD + "model:\n" + PLAIN + "program:\n  - train: " + long_names + "\n  - forward: [A B, C, \"A B\"]\n"


_TEMPLATE = HEAD + "MODEL\nCONFIG\nPROGRAM\n"
_PARTS = {"MODEL": "model: {children: {A: \"Linear(4, 4)\", B: ReLU}}", "CONFIG": "ranks: 2",
          "PROGRAM": "program: [train]"}

BAD_MODELS = (
    "model: 5", "model: []", "model: {childen: {}}", "model: {children: {A: \"Linear(4)\"}}",
    "model: {children: {A: \"Linear(4, x)\"}}", "model: {children: {A: \"Foo(3)\"}}",
    "model: {children: {A: \"Foo(\"}}",
    "model: {children: {A.b: ReLU}}", "model: {children: {A: ReLU, A: ReLU}}", "model: {children: {A: [1]}}",
    "model: {params: {w: -4}}", "model: {params: {w: 1.5}}", "model: {params: {w: [4611686018427387904, 2]}}",
    "model: {params: {w: {requires_grad: true}}}", "model: {params: {w: {shape: 4, same_as: v}}}",
    "model: {params: {w: {same_as: w}}}", "model: {params: {w: {same_as: v}, v: {same_as: u}, u: 4}}",
    "model: {params: {w: 4, v: {same_as: nowhere}}}", "model: {params: {w: {shape: 4, requires_grad: 1}}}",
    "model: {params: {a: 4611686018427387904, b: 4611686018427387904}}",
    "model: {params: {w: 4}, children: {w: ReLU}}",
    "model: {outputs: 0}", "model: {outputs: 1001}", "model: {leaf: maybe}",
    "model: {leaf_modules: [Nobody]}",
    "model: {children: {A: {same_as: B}}}", "model:\n  children:\n    A: {children: {b: {same_as: A}}}",
    "model: {children: {A: ReLU, B: {same_as: A, type: X}}}", "model: {external: [w]}",
    "model: {params: {w: 4}, external: [{registered: true}]}", "model: {freeze: [A]}",
    "model: {children: {A: ReLU}, other_roots: {A: ReLU}}", "model: {children: {A: {forward: A}}}",
    "model: {children: {A: ReLU}, forward: \"A[\"}", "model: {children: {A: ReLU}, forward: \"A]\"}",
    "model: {children: {A: ReLU}, forward: B}", "model: {children: {A: ReLU}, forward: \"A:chekpoint\"}",
    "model: {children: {A: ReLU}, forward: \"A:per_rank\"}", "model: {children: {A: ReLU}, forward: \"?2\"}",
    "model: {children: {A: ReLU}, forward: \"?\"}", "model: {children: {A: ReLU}, forward: \"?1[A]\"}",
    "model: {children: {A: ReLU}, forward: \"A!\"}", "model: {children: {A: ReLU}, forward: A.*}",
    "model: {preset: bert}", "model: {preset: lora}", "model: {preset: lora, base: lora}",
    "model: {preset: mlp, n_embd: 4}",
    "model: {preset: mlp, hidden_size: 0}", "model: {preset: mlp, hidden_size: 2147483649}",
    "model: {preset: llama, hidden_size: 10, num_attention_heads: 3}",
    "model: {preset: mlp, num_layers: 200001}",
    "model: {preset: mixtral, experts_per_step: 9}", "model: {preset: gpt, tie_word_embeddings: 1}",
    "model: {preset: gpt, gradient_checkpointing: True}", "model: {preset: lora, base: mlp}",
    "model: {preset: lora, base: gpt, target_modules: [nobody]}", "model: {preset: llama, parameters: many}",
    "model: {preset: llama, parameters: 1e9, hidden_size: 10, num_attention_heads: 3}",
)
BAD_CONFIGS = (
    "ranks: 0", "ranks: 65537", "seed: -1", "seed: 1e99", "name: \"\"", "nonsense: 1",
    "input_requires_grad: 1",
    "plans: []", "engines: []", "engines: {}", "engines: [{root: C}]", "engines: [{name: a}, {name: a}]",
    "engines: [{optimizer: adam}]", "deepspeed_config: 3", "deepspeed_config: {stage: 3}",
    "deepspeed_config: {unknown: 3}", "deepspeed_config: {gradient_accumulation_steps: 0}",
    "deepspeed_config: {gradient_accumulation_steps: auto}", "deepspeed_config: {zero_optimization: {}}",
    "deepspeed_config: {zero_optimization: {stage: 2}}", "deepspeed_config: {fp16: {enabled: 1}}",
    "deepspeed_config: {zero_optimization: {stage: 3, stage3_prefetch_bucket_size: auto}}",
    "deepspeed_config: {zero_optimization: {stage: 3, stage3_prefetch_bucket_size: 1.5}}",
    "deepspeed_config: {zero_optimization: {stage: 3, stage3_max_live_parameters: 4611686018427387905}}",
    "deepspeed_config: {zero_optimization: {stage: 3, zero_hpz_partition_size: 2}}",
    "deepspeed_config:\n  zero_optimization:\n    stage: 3\n    offload_param:\n      device: nvme",
    "deepspeed_config:\n  zero_optimization:\n    stage: 3\n    mics_shard_size: 4",
)
BAD_PROGRAMS = (
    "program: []", "program: train", "program: [[train]]", "program: [{}]", "program: [trian]",
    "program: [{trian: all}]",
    "program: [repeat]", "program: [{backward: A}]", "program: [{backward: , grad: false}]",
    "program: [{train: D}]",
    "program: [{train: A, grad: false}]", "program: [{train: A, engine: 1}]",
    "program: [{train: A, direct: 2}]",
    "program: [{repeat: 2}]", "program: [{repeat: -2, do: [step]}]",
    "program: [{repeat: 1000001, do: [step]}]",
    "program: [{when: {}, do: [step]}]", "program: [{when: {rank: []}, do: [step]}]",
    "program: [{when: {rank: 0}}]",
    "program:\n  - when:\n      rank: 2\n    do: [step]", "program:\n  - when:\n      iteration: 1\n    do: [step]",
    "program:\n  - repeat: 2\n    do:\n      - when:\n          iteration: [0, 3]\n        do: [step]",
    "program:\n  - when: {rank: [0, 1]}\n    do: [step]\n    else: [step]",
    "program: [{when: {rank: x}, do: [step]}]", "program: [{choose: []}]",
    "program: [{choose: [{do: [step], weight: 0}]}]",
    "program: [{choose: [{weight: 1}]}]", "program: [{choose: [step]}]", "program: [{gather: [D]}]",
    "program: [{gather: [B]}]", "program: [{gather: {}}]",
    "program: [{gather: [A.weight], modifier_rank: 7}]",
    "program: [{gather: [A.weight], modifier_rank: x}]",
    "program:\n  - train: A\n  - train: |\n      A\n      Z",
    "program:\n  - repeat: 1000000\n    do: [{repeat: 1000000, do: [step]}]",
    "program: [{train: p}]\nplans: {p: q, q: p}",
    "program: [train",  "program: [&a train, *a]", "program: [!x train]", "program: [{train: A}}]",
    "program: [train]\n---\nzero3sim: 1", "program: [train]\n\tx: 1", "program: [{? [a] : b}]",
)
BAD_WHOLES = ("", "# nothing\n", "[]\n", "zero3sim: 2\n", "zero3sim: 0\n", "zero3sim: x\n", "name: x\n", HEAD,
              HEAD + "model: {}\n", HEAD + "x: \x01\n", HEAD + "deep: " + "[" * 101 + "]" * 101 + "\n",
              HEAD + "deep: " + "[" * 10001 + "\n")


def bad() -> List[str]:
    """Scenario texts that both readers refuse."""
    texts = list(BAD_WHOLES)
    for part, variants in (("MODEL", BAD_MODELS), ("CONFIG", BAD_CONFIGS), ("PROGRAM", BAD_PROGRAMS)):
        for variant in variants:
            parts: Dict[str, str] = dict(_PARTS, **{part: variant})
            text = _TEMPLATE
            for name, value in parts.items():
                text = text.replace(name, value)
            texts.append(text)
    return texts
