"""Options of the launcher: `python -m gpu_platform_training.train [OPTIONS] module:function [ARGUMENTS]`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_UNITS: Final = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True, slots=True, kw_only=True)
class Every:
    """An interval in steps or in seconds. The field that does not apply is None."""

    steps: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of a training run that the launcher handles. All other options belong to the program."""

    target: str
    arguments: tuple[str, ...]
    precision: str
    parallel: str
    compile: bool
    recompute: bool
    checkpoints: Path | None
    checkpoint_every: Every
    keep: int
    report_every: Every
    metrics_port: int | None
    profile: tuple[int, int] | None
    profile_to: Path
    warm_up_mib: int
    seed: int


def parse(arguments: Sequence[str]) -> Options:
    """Parse the options. Invalid options end the process with exit code 2."""
    parser = argparse.ArgumentParser(prog="python -m gpu_platform_training.train", description=__doc__)
    parser.add_argument(
        "target", help="module:function; the function receives a gpu_platform_training.training.Training"
    )
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, help="arguments of the function, in training.arguments"
    )
    parser.add_argument("--precision", choices=["auto", "float32", "bfloat16", "float16"], default="auto")
    parser.add_argument("--parallel", choices=["auto", "none", "ddp", "fsdp"], default="auto")
    parser.add_argument(
        "--compile", action="store_true", help="use torch.compile; parts that cannot be compiled run uncompiled"
    )
    parser.add_argument(
        "--recompute",
        action="store_true",
        help="do not keep activations inside the model's blocks; uses less memory but is slower",
    )
    parser.add_argument(
        "--checkpoints", type=Path, help="directory of checkpoints; default: the variable CHECKPOINTS"
    )
    parser.add_argument(
        "--checkpoint-every",
        type=_every,
        default=Every(seconds=600),
        help="a number of steps, or a time such as 30s, 10m or 1h",
    )
    parser.add_argument("--keep", type=_positive, default=2, help="number of complete checkpoints to keep")
    parser.add_argument(
        "--report-every", type=_every, default=Every(seconds=30), help="a number of steps, or a time"
    )
    parser.add_argument("--metrics-port", type=int, help="port for /metrics of the first process; default: none")
    parser.add_argument(
        "--profile", type=_window, help="record steps FIRST:LAST as a Chrome trace of each process"
    )
    parser.add_argument("--profile-to", type=Path, default=Path("profiles"), help="directory of the traces")
    parser.add_argument(
        "--warm-up-mib", type=int, default=64, help="size of the all-reduce before the first step; 0 disables it"
    )
    parser.add_argument("--seed", type=int, default=0)
    found = vars(parser.parse_args(arguments))
    found["arguments"] = tuple(found["arguments"])
    return Options(**found)


def _every(text: str) -> Every:
    if text.isdecimal() and int(text) > 0:
        return Every(steps=int(text))
    found = re.fullmatch(r"(\d+)([smh])", text)
    if found is None or int(found[1]) == 0:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected steps (500) or a time (30s, 10m, 1h)")
    return Every(seconds=float(int(found[1]) * _UNITS[found[2]]))


def _window(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+):(\d+)", text)
    if found is None or int(found[1]) > int(found[2]):
        raise argparse.ArgumentTypeError(f"found {text!r}, expected FIRST:LAST, for example 10:12")
    return int(found[1]), int(found[2])


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a number above 0")
    return int(text)
