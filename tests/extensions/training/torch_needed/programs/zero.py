"""One of two processes that train a small model with DeepSpeed on CPUs, with each configuration in turn."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import deepspeed
import torch
from torch import nn


def main() -> None:
    """Train with each configuration. Print its ZeRO stage, and the losses of the first and the last step."""
    deepspeed.init_distributed(dist_backend="gloo")
    x = torch.randn(32, 64, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    y = x.sum(dim=1, keepdim=True)
    for file in sys.argv[1:]:
        # PyTorch's optimizer is used because DeepSpeed compiles its optimizers on first use.
        config = json.loads(Path(file).read_text()) | {
            "zero_allow_untested_optimizer": True,
            "zero_force_ds_cpu_optimizer": False,
        }
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
        losses = []
        for _ in range(40):
            loss = ((engine(x) - y) ** 2).mean()
            engine.backward(loss)
            engine.step()
            losses.append(loss.item())
        if torch.distributed.get_rank() == 0:
            stage = engine.zero_optimization_stage()
            print("trained", json.dumps({"stage": stage, "first": losses[0], "last": losses[-1]}), flush=True)


if __name__ == "__main__":
    main()
