"""How long `gpu-platform render` takes beside the bare SDK registering the same resources, in one run.

Run it by hand:  .venv/bin/python benchmarks/render.py [--sizes 1 10 100] [--runs 5]

Each figure is a whole process, imports included. The bare side reads the inputs that `render` wrote and
registers each with its class of the SDK under the SDK's own mock monitor: no stack file, no plan, no files.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent

BARE = """
import importlib, json, re, sys
import pulumi
import pulumi_kubernetes as k8s
import pulumi.runtime.mocks as mocks

class Echo(mocks.Mocks):
    def new_resource(self, args):
        return args.name + "-id", args.inputs
    def call(self, args):
        return {}

mocks.set_mocks(Echo(), project="gpu-platform", stack="bench", preview=True)

class Component(pulumi.ComponentResource):
    pass

def snake(name):
    return re.sub("([A-Z])", lambda m: "_" + m[1].lower(), name)

def typed(record, opts):
    token, version, kind = re.fullmatch("kubernetes:([^/]+)/(v[^:]+):(.+)", record["type"]).groups()
    inputs = {snake(key): value for key, value in record["inputs"].items() if key not in ("apiVersion", "kind")}
    group = token.removesuffix(".k8s.io").split(".")[0]
    try:
        module = getattr(getattr(k8s, group), version)
    except AttributeError:
        return k8s.apiextensions.CustomResource(
            record["name"], api_version=record["inputs"]["apiVersion"], kind=kind, opts=opts, **inputs
        )
    return getattr(module, kind)(record["name"], opts=opts, **inputs)

def program():
    made = {}
    for record in json.load(open(sys.argv[1])):
        if record["type"] == "pulumi:pulumi:Stack":
            continue
        depends = [made[urn] for urn in record["dependencies"] if urn in made]
        opts = pulumi.ResourceOptions(parent=made.get(record["parent"]), depends_on=depends)
        if record["type"] == "pulumi:providers:kubernetes":
            made[record["urn"]] = k8s.Provider(record["name"], opts=opts)
        elif record["custom"]:
            made[record["urn"]] = typed(record, opts)
        else:
            made[record["urn"]] = Component(record["type"], record["name"], None, opts)
    print(len(made))

pulumi.runtime.test(program)()
"""


def stack_of(size: int) -> dict[str, Any]:
    """Return the platform of stack `local` with its pools and teams `size` times."""
    local = yaml.safe_load((ROOT / "stacks" / "Pulumi.local.yaml").read_text("utf-8"))
    platform = local["config"]["gpu-platform:platform"]
    pools, teams = platform["pools"], platform["teams"]
    platform["pools"] = [{**pool, "name": f"{pool['name']}-{i}"} for i in range(size) for pool in pools]
    platform["teams"] = [
        {
            **team,
            "name": f"{team['name']}-{i}",
            "workloads": [{**load, "pool": f"{load['pool']}-{i}"} for load in team["workloads"]],
        }
        for i in range(size)
        for team in teams
    ]
    return local


def seconds(command: list[str]) -> float:
    """Run a command and return its wall time, s."""
    started = time.perf_counter()
    # As on a user's machine: without compiled modules the compiler is most of what either side takes.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT, env=env)
    return time.perf_counter() - started


def main() -> None:
    """Measure each size and print one table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    print(f"{'size':>6} {'resources':>10} {'render s':>10} {'bare SDK s':>11} {'ratio':>7}")
    for size in arguments.sizes:
        with tempfile.TemporaryDirectory() as folder:
            stack = Path(folder) / "Pulumi.bench.yaml"
            stack.write_text(yaml.safe_dump(stack_of(size)), "utf-8")
            bare = Path(folder) / "bare.py"
            bare.write_text(BARE, "utf-8")
            out = Path(folder) / "out"
            render = [str(Path(sys.executable).with_name("gpu-platform")), "render", str(stack), "--out", str(out)]
            sdk = [sys.executable, str(bare), str(out / "resources.json")]
            seconds(render)
            seconds(sdk)
            # In turn, so that a drift of the machine's speed meets both.
            pairs = [(seconds(render), seconds(sdk)) for _ in range(arguments.runs)]
            resources = len(json.loads((out / "resources.json").read_text("utf-8")))
            ours, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
            ratio = statistics.median(mine / bare_sdk for mine, bare_sdk in pairs)
            print(f"{size:>5}x {resources:>10} {ours:>10.2f} {theirs:>11.2f} {ratio:>7.2f}")


if __name__ == "__main__":
    main()
