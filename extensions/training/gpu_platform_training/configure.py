"""Writes a DeepSpeed or Accelerate configuration for this pod.

  python -m gpu_platform_training.configure deepspeed --parameters 8b --out ds.json
  python -m gpu_platform_training.configure accelerate --parameters 8b --layer-class LlamaDecoderLayer --out a.yaml

It needs only the standard library, and the variables that the platform sets in the pod. The reasons for the
configuration are written to standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Final

from gpu_platform_training.configurations import Job, accelerate, deepspeed, launch_command, to_yaml
from gpu_platform_training.exit_codes import FINISHED, USAGE
from gpu_platform_training.granted import Granted, WrongSetting
from gpu_platform_training.sizing import DoesNotFit, Model

_UNITS: Final = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}


def main(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> int:
    """Write the configuration. Return 0, or 2 if the model does not fit or a setting is wrong."""
    chosen = _parser().parse_args(arguments)
    model = Model.of(chosen.parameters, chosen.largest_layer)
    try:
        job = Job.of(environment, _free(Granted.from_environment(environment).scratch))
        if chosen.library == "deepspeed":
            found, why = deepspeed(
                job, model, micro_batch=chosen.micro_batch, accumulate=chosen.accumulate, clip=chosen.clip
            )
            text = json.dumps(found, indent=2) + "\n"
        else:
            found, why = accelerate(
                job, model, layer_class=chosen.layer_class, deepspeed_file=chosen.deepspeed_file
            )
            text = to_yaml(found)
            start = " ".join(launch_command(job, chosen.out or Path("FILE")))
            why.append(f"start the program with: {start} PROGRAM")
    except (WrongSetting, DoesNotFit) as error:
        print(error, file=sys.stderr)
        return USAGE
    print("\n".join(why), file=sys.stderr)
    if chosen.out is None:
        print(text, end="")
        return FINISHED
    try:
        chosen.out.write_text(text)
    except OSError as error:
        print(f"{chosen.out} cannot be written: {error.strerror}", file=sys.stderr)
        return USAGE
    return FINISHED


def _free(scratch: Path | None) -> int:
    """Return the free space of a directory's file system in bytes, or 0 if the directory does not exist."""
    return shutil.disk_usage(scratch).free if scratch is not None and scratch.is_dir() else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m gpu_platform_training.configure",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    libraries = parser.add_subparsers(dest="library", required=True, metavar="deepspeed|accelerate")
    for name in ("deepspeed", "accelerate"):
        one = libraries.add_parser(name)
        one.add_argument(
            "--parameters",
            type=_count,
            required=True,
            help="number of parameters of the model, for example 125m, 8b or 70.6b",
        )
        one.add_argument(
            "--largest-layer",
            type=_count,
            help="number of parameters of the largest layer; default: a sixteenth of all parameters",
        )
        one.add_argument("--out", type=Path, help="output file; default: standard output")
        if name == "deepspeed":
            one.add_argument(
                "--micro-batch", type=int, default=1, help="number of samples per GPU in a micro batch"
            )
            one.add_argument("--accumulate", type=int, default=1, help="number of micro batches per step")
            one.add_argument("--clip", type=float, default=1.0, help="maximum norm of the gradients")
        else:
            one.add_argument("--layer-class", help="class name of the model's layers, for FSDP2")
            one.add_argument(
                "--deepspeed-file", type=Path, help="configuration that `deepspeed` wrote, which divides the state"
            )
    return parser


def _count(text: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([kmbt]?)", text.lower())
    number = int(Decimal(found[1]) * _UNITS[found[2]]) if found is not None else 0
    if not number:
        raise argparse.ArgumentTypeError(
            f"found {text!r}, expected a number of parameters such as 125m, 8b or 70.6b"
        )
    return number


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
