from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
import torch
from torch import nn

from gpu_platform_training import speed
from gpu_platform_training.profiling import Profiler, Window

_CPU = torch.device("cpu")


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return torch.tanh(self.inner(x))


def test_blocks_are_computed_again_with_the_same_gradients_and_names() -> None:
    torch.manual_seed(1)
    plain = nn.Sequential(Block(), nn.Linear(8, 1))
    again = nn.Sequential(Block(), nn.Linear(8, 1))
    again.load_state_dict(plain.state_dict())
    assert speed.recompute(again, [Block]) == 1
    assert list(again.state_dict()) == list(plain.state_dict())
    x = torch.randn(4, 8)
    for model in (plain, again):
        model(x).sum().backward()
    assert (plain[0].calls, again[0].calls) == (1, 2)
    assert torch.equal(plain[0].inner.weight.grad, again[0].inner.weight.grad)


class _Own(nn.Module):
    """A user-defined module, because PyTorch 2.11 does not compile a built-in module at the top level."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.layer(rows)


def test_parts_that_cannot_be_compiled_run_uncompiled_and_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_graph: torch.fx.GraphModule, _inputs: list[torch.Tensor]) -> None:
        raise RuntimeError("no C++ compiler\nand more")

    torch._dynamo.reset()
    model = _Own()
    expected = model(torch.ones(1, 8))
    with caplog.at_level(logging.WARNING, logger="workloads"):
        assert torch.allclose(speed.compiled(model, broken)(torch.ones(1, 8)), expected)
    assert "this part of the model runs uncompiled: RuntimeError: no C++ compiler" in caplog.text


def test_a_model_is_compiled_by_the_backend_that_is_named() -> None:
    torch._dynamo.reset()
    seen = []

    def counting(graph: torch.fx.GraphModule, _inputs: list[torch.Tensor]) -> object:
        seen.append(graph)
        return graph.forward

    speed.compiled(_Own(), counting)(torch.ones(1, 8))
    assert len(seen) == 1


def test_autocast_computes_in_bfloat16_and_float32_stays() -> None:
    layer = nn.Linear(8, 8)
    with speed.autocast("bfloat16", _CPU):
        assert layer(torch.ones(1, 8)).dtype == torch.bfloat16
    with speed.autocast("float32", _CPU):
        assert layer(torch.ones(1, 8)).dtype == torch.float32


def test_without_a_gpu_the_precision_is_float32_unless_it_is_declared() -> None:
    assert speed.chosen_precision("auto", _CPU) == "float32"
    assert speed.chosen_precision("bfloat16", _CPU) == "bfloat16"


def test_a_window_of_steps_becomes_a_chrome_trace(tmp_path: Path) -> None:
    file = tmp_path / "traces" / "steps.json"
    with Profiler(Window(2, 3), file) as profiler:
        for step in range(5):
            profiler.before(step)
            with torch.profiler.record_function(f"step {step}"):
                torch.ones(8, 8) @ torch.ones(8, 8)
            profiler.after(step)
    names = {event.get("name") for event in json.loads(file.read_text())["traceEvents"]}
    assert {"step 2", "step 3"} <= names
    assert not {"step 1", "step 4"} & names


def test_a_training_without_a_window_is_not_profiled(tmp_path: Path) -> None:
    with Profiler(None, tmp_path / "steps.json") as profiler:
        profiler.before(0)
        profiler.after(0)
    assert not (tmp_path / "steps.json").exists()
