"""Stochastic depth under DeepSpeed ZeRO-3: the fourth step leaves a layer out.

Alone it is one rank; deepspeed or torchrun start more."""
import os

os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("MASTER_PORT", "29512")
for name in ("RANK", "LOCAL_RANK"):
    os.environ.setdefault(name, "0")
os.environ.setdefault("WORLD_SIZE", "1")

import deepspeed  # noqa: E402
import torch  # noqa: E402

WIDTH = 32
CONFIG = {
    "train_micro_batch_size_per_gpu": 4,
    "zero_allow_untested_optimizer": True,
    "zero_optimization": {
        "stage": 3,
        "stage3_prefetch_bucket_size": 4096,
        "stage3_max_reuse_distance": 0,
        "stage3_param_persistence_threshold": 0,
    },
}


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Linear(WIDTH, WIDTH)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.head = torch.nn.Linear(WIDTH, 1)

    def forward(self, x: torch.Tensor, dropped: int) -> torch.Tensor:
        x = self.embed(x)
        for number, layer in enumerate(self.layers):
            if number != dropped:
                x = torch.relu(layer(x))
        return self.head(x)


def main() -> None:
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    engine = deepspeed.initialize(model=model, optimizer=optimizer, config=CONFIG)[0]
    for step in range(6):
        x = torch.randn(4, WIDTH, device=engine.device)
        loss = engine(x, 3 if step == 3 else -1).pow(2).mean()
        engine.backward(loss)
        engine.step()
    print("trained")


if __name__ == "__main__":
    main()
