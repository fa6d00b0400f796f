"""Try different settings for a training run, one per pod.

To start the run, use `python sweep.py`. To find the best setting, use `kubectl logs ... | python sweep.py best`.

The Job numbers its pods with JOB_COMPLETION_INDEX. Each pod tries one setting on its MIG instance and prints its
result as a line of JSON.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Iterable
from typing import Any

import torch
from miniature import Model, answer, batch, loss_of, question

SETTINGS = [
    {"rate": rate, "width": width, "layers": layers}
    for rate, width, layers in itertools.product((3e-4, 1e-3, 3e-3), (32, 64), (1, 2))
]
STEPS = int(os.environ.get("STEPS", "400"))


def tried(index: int, steps: int = STEPS) -> dict[str, Any]:
    """Train with one of the settings. Return the setting and its final loss."""
    setting = SETTINGS[index]
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    model = Model(width=setting["width"], layers=setting["layers"]).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=setting["rate"])
    for step in range(steps):
        loss = loss_of(model, batch(lambda number: question(number) + answer(number), step, 64).to(device))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return {"index": index, **setting, "loss": loss.item()}


def best(lines: Iterable[str]) -> dict[str, Any]:
    """Return the result with the lowest loss. Other log lines are ignored."""
    results = [json.loads(line) for line in lines if line.startswith('{"index"')]
    if not results:
        raise SystemExit("no results: expected the logs of the pods of the sweep")
    return min(results, key=lambda result: result["loss"])


def main() -> None:
    """Print the result of this pod, or the best result in standard input."""
    found = best(sys.stdin) if sys.argv[1:] == ["best"] else tried(int(os.environ["JOB_COMPLETION_INDEX"]))
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
