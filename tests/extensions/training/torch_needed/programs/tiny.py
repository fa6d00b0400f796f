"""A small regression whose result does not depend on the number of processes. Each process computes a part of a
batch.

Arguments: the number of steps, a file for losses, and optionally a failure to simulate.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

BATCH = 8


class Block(nn.Module):
    """A layer of the model."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tanh(self.inner(x))


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the data of a step. Every process computes the same data."""
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(BATCH, 16, generator=generator)
    return x, torch.sin(x.sum(dim=1, keepdim=True))


def main(training) -> None:
    """Train the model, and write the loss of each step."""
    steps, losses, trouble = int(training.arguments[0]), Path(training.arguments[1]), training.arguments[2:]
    torch.manual_seed(1)
    model = nn.Sequential(Block(), Block(), nn.Linear(16, 1))
    model = training.prepare(model, blocks=[Block])
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100)
    place = training.place
    part = BATCH // place.processes
    for step in training.steps(steps, model=model, optimizer=optimizer, scheduler=scheduler):
        x, y = (one[place.rank * part : (place.rank + 1) * part] for one in batch(step))
        with training.forward():
            loss = nn.functional.mse_loss(model(x), y)
        _trouble(trouble, step, place.rank, losses)
        training.backward(loss)
        training.update(optimizer)
        scheduler.step()
        training.report(loss=loss, tokens=BATCH)
        whole = loss.detach().clone()
        dist.all_reduce(whole)
        if place.rank == 0:
            with losses.open("a") as file:
                file.write(json.dumps({"step": step, "loss": whole.item() / place.processes}) + "\n")


def _trouble(trouble: tuple[str, ...], step: int, rank: int, losses: Path) -> None:
    """Simulate a failure in the middle of a step. The arguments `KIND STEP` select the failure."""
    if not trouble or step != int(trouble[1]):
        return
    if trouble[0] == "pause":  # long enough for the test's SIGTERM to arrive in the middle of this step
        if rank == 0:
            losses.with_suffix(".paused").touch()
        while not losses.with_suffix(".continue").exists():
            time.sleep(0.05)
    elif trouble[0] == "mistake" and rank == 1:
        raise TypeError("a mistake of the program")
    elif trouble[0] == "flaky" and rank == 1:
        raise ValueError("a shard cannot be read")
    elif trouble[0] == "ecc" and rank == 1:
        raise RuntimeError("CUDA error: uncorrectable ECC error encountered")
