"""What real DeepSpeed numbers a Hugging Face model, and in which order its forward calls modules.

usage: python tests/golden/ids/record.py OUT [CONFIG.json...]      in an environment with DeepSpeed and transformers

Each config's class is built, given to `deepspeed.initialize` (ZeRO-3, one rank) and called once. A line of OUT is one
model as JSON: `modules` [id, name, class], `params` [ds_id, name, shape, persistent], `forward` as nested calls.
"""
import glob
import json
import os
import sys
import types
from typing import Any, Dict, List

import deepspeed
import torch
import transformers

PERSISTENCE_THRESHOLD_NUMEL = 100
TOKENS = 8


def build(config: Dict[str, Any]) -> torch.nn.Module:
    """The class that `architectures` names, with its dropout off."""
    torch.manual_seed(1)
    made = transformers.AutoConfig.for_model(**config)
    return getattr(transformers, config["architectures"][0])(made)


def initialize(model: torch.nn.Module) -> "deepspeed.DeepSpeedEngine":
    """ZeRO-3 with an optimizer of torch."""
    config = {"train_micro_batch_size_per_gpu": 2, "zero_allow_untested_optimizer": True,
              "steps_per_print": 10 ** 9,
              "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold":
                                    PERSISTENCE_THRESHOLD_NUMEL}}
    keys = {"model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=0.001),
            "model_parameters": model.parameters()}
    if tuple(int(part) for part in deepspeed.__version__.split("+")[0].split(".")[:3]) < (0, 6, 6):
        return deepspeed.initialize(args=types.SimpleNamespace(local_rank=0), config_params=config, **keys)[0]
    return deepspeed.initialize(config=config, **keys)[0]


def forward_calls(engine: "deepspeed.DeepSpeedEngine", model: torch.nn.Module) -> str:
    """`model[model.embed_tokens ...] lm_head`: what the root's forward calls, each with what it calls."""
    open_calls: List[List[str]] = [[]]
    handles = []

    def enter(name: str) -> Any:
        return lambda *_: open_calls.append([name])

    def leave(*_: Any) -> None:
        name, *inner = open_calls.pop()
        open_calls[-1].append(name + ("[" + " ".join(inner) + "]" if inner else ""))

    for name, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(enter(name)))
        handles.append(module.register_forward_hook(leave))
    tokens = torch.randint(1, 99, (2, TOKENS), device=engine.device)
    engine(input_ids=tokens, labels=tokens, use_cache=False)
    for handle in handles:
        handle.remove()
    return open_calls[0][0]


def describe(name: str, config: Dict[str, Any]) -> Dict[str, Any]:
    """One line of the file."""
    model = build(config)
    engine = initialize(model)
    modules = []
    for module_name, module in model.named_modules():
        number = getattr(module, "ds_id", None)
        number = getattr(module, "id", None) if number is None else number
        if number is not None:
            modules.append([number, module_name, type(module).__name__])
    first = min(number for number, _, _ in modules)
    names = {id(param): param_name for param_name, param in model.named_parameters()}
    params = [[param.ds_id, names[id(param)], list(param.ds_shape), bool(param.ds_persist)]
              for param in model.parameters()]
    first_param = min(param[0] for param in params)
    return {"config": name, "modules": [[number - first, *rest] for number, *rest in modules],
            "params": [[number - first_param, *rest] for number, *rest in params],
            "forward": forward_calls(engine, model)}


def main() -> None:
    out = sys.argv[1]
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "configs")
    paths = sys.argv[2:] or sorted(glob.glob(folder + "/*.json"))
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0"), ("MASTER_ADDR", "127.0.0.1"),
                        ("MASTER_PORT", "29517"), ("GLOO_SOCKET_IFNAME", "lo")):
        os.environ.setdefault(name, value)
    lines = [{"deepspeed": deepspeed.__version__, "transformers": transformers.__version__,
              "torch": torch.__version__, "persistence_threshold": PERSISTENCE_THRESHOLD_NUMEL}]
    for path in paths:
        with open(path) as file:
            config = json.load(file)
        lines.append(describe(os.path.basename(path)[:-len(".json")], config))
        print(lines[-1]["config"], flush=True)
    with open(out, "w") as file:
        for line in lines:
            file.write(json.dumps(line, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
