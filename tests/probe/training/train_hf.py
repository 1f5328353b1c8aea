"""Trains a small Hugging Face model from a config, no download: python train_hf.py MODEL [OPTIONS].

Seeds are fixed, dropout is off: every run does the same. `--skip-layer N` leaves a layer out from step N on.
"""
import argparse
import contextlib
import time
import types

import deepspeed
import torch
import transformers


def make_model(name: str, layers: int, width: int) -> torch.nn.Module:
    """GPT-2 (dense, tied), Llama (dense), T5 (tied, shared embedding), Mixtral (experts)."""
    if name == "gpt2":
        config = transformers.GPT2Config(vocab_size=64, n_positions=32, n_embd=width, n_layer=layers,
                                         n_head=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
        return transformers.GPT2LMHeadModel(config)
    if name == "llama":
        config = transformers.LlamaConfig(vocab_size=64, hidden_size=width, intermediate_size=2 * width,
                                          num_hidden_layers=layers, num_attention_heads=2)
        return transformers.LlamaForCausalLM(config)
    if name == "t5":
        config = transformers.T5Config(vocab_size=64, d_model=width, d_kv=width // 2, d_ff=2 * width,
                                       num_layers=layers, num_heads=2, dropout_rate=0.0,
                                       decoder_start_token_id=0)
        return transformers.T5ForConditionalGeneration(config)
    config = transformers.SwitchTransformersConfig(
        vocab_size=64, d_model=width, d_kv=width // 2, d_ff=2 * width, num_layers=layers, num_heads=2,
        num_decoder_layers=layers, num_sparse_encoder_layers=1, num_sparse_decoder_layers=1, num_experts=4,
        dropout_rate=0.0, decoder_start_token_id=0, router_jitter_noise=0.0) if name == "switch" \
        else transformers.MixtralConfig(
            vocab_size=64, hidden_size=width, intermediate_size=2 * width, num_hidden_layers=layers,
            num_attention_heads=2, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=1)
    kind = transformers.SwitchTransformersForConditionalGeneration if name == "switch" \
        else transformers.MixtralForCausalLM
    return kind(config)


def make_engine(model: torch.nn.Module, args: argparse.Namespace) -> "deepspeed.DeepSpeedEngine":
    zero = {"stage": 3, "stage3_prefetch_bucket_size": args.prefetch,
            "stage3_param_persistence_threshold": 100,
            "stage3_max_reuse_distance": args.reuse, "stage3_max_live_parameters": 1000000,
            "reduce_bucket_size": 100000}
    release = tuple(int(part) for part in deepspeed.__version__.split("+")[0].split(".")[:3])
    zero["stage3_gather_%s_weights_on_model_save" % ("fp16" if release < (0, 6, 0) else "16bit")] = True
    config = {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": args.gas,
              "zero_allow_untested_optimizer": True, "steps_per_print": 10 ** 9, "zero_optimization": zero}
    keys = {"model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=0.001),
            "model_parameters": model.parameters()}
    if release < (0, 6, 6):
        return deepspeed.initialize(args=types.SimpleNamespace(local_rank=0), config_params=config, **keys)[0]
    return deepspeed.initialize(config=config, **keys)[0]


@contextlib.contextmanager
def without_layer(model: torch.nn.Module):
    """A data-dependent branch that leaves the second layer out."""
    layers = model.transformer.h if hasattr(model, "transformer") else model.model.layers
    kept = layers._modules
    layers._modules = type(kept)((name, layer) for name, layer in kept.items() if name != "1")
    try:
        yield
    finally:
        layers._modules = kept


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=("gpt2", "llama", "t5", "switch", "mixtral"))
    for name, default in (("steps", 4), ("layers", 2), ("width", 16), ("gas", 1), ("prefetch", 3000),
                          ("reuse", 2000), ("skip-layer", -1), ("save-every", 0), ("length", 8)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--evaluate", action="store_true")
    parser.add_argument("--checkpoint", choices=("", "reentrant", "non-reentrant"), default="")
    args = parser.parse_args()
    torch.manual_seed(1)
    model = make_model(args.model, args.layers, args.width)
    if args.checkpoint:
        model.gradient_checkpointing_enable({"use_reentrant": args.checkpoint == "reentrant"})
    engine = make_engine(model, args)
    seconds = []
    for step in range(args.steps):
        began = time.process_time()
        torch.manual_seed(100 + step)
        tokens = torch.randint(1, 64, (2, args.length), device=engine.device)
        skipping = 0 <= args.skip_layer <= step
        engine.train()
        with without_layer(model) if skipping else contextlib.suppress():
            loss = engine(input_ids=tokens, labels=tokens).loss
        if args.save_every and step % args.save_every == args.save_every - 1:
            save = getattr(engine, "save_16bit_model", None) or engine.save_fp16_model
            save("/dev/shm" if torch.distributed.get_world_size() == 1 else "/tmp", "weights.bin")
        engine.backward(loss)
        engine.step()
        if args.evaluate:
            engine.eval()
            with torch.no_grad():
                engine(input_ids=tokens, labels=tokens)
        seconds.append(time.process_time() - began)
    print("trained", args.steps, "- median step, CPU seconds: %.4f" % sorted(seconds)[len(seconds) // 2])


if __name__ == "__main__":
    main()
