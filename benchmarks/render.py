"""Measures the CPU time of `gpu-platform render`, of the bare SDK with the same resources, and of all policies.

Run it by hand: .venv/bin/python benchmarks/render.py [--sizes 1 10 100] [--runs 5]

`render` and the bare SDK run as whole processes, including imports, and each render writes a new folder. The bare
SDK process reads the inputs that `render` wrote. It registers each input with its SDK class under the SDK's mock
monitor, without a stack file, a plan or files. The policies' time is the time that `check` needs to import and
evaluate them, after recording. The figures are CPU seconds (user and system). Each is the minimum over all runs,
because other processes can slow down a run.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
MOST_POOLS = 200  # maximum number of pools in a stack file

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


# The garbage collector is off, as in `check`.
POLICIES = """
import gc, sys, time
gc.disable()
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import load_stack
loaded = load_stack(sys.argv[1])
program = record_stack(loaded)
started = time.process_time()
from gpu_platform.deploy.recorded.policy_check import evaluate_policies
evaluate_policies(program, loaded.plan)
print(time.process_time() - started)
"""


def stack_of(size: int) -> dict[str, Any]:
    """Return the stack `local` with its teams and pools repeated `size` times.

    If this exceeds the maximum number of pools, the pools have more nodes instead.
    """
    local = yaml.safe_load((ROOT / "stacks" / "Pulumi.local.yaml").read_text("utf-8"))
    platform = local["config"]["gpu-platform:platform"]
    pools, teams = platform["pools"], platform["teams"]
    copies = min(size, MOST_POOLS // len(pools))
    nodes = math.ceil(size / copies)
    platform["pools"] = [
        {**pool, "name": f"{pool['name']}-{i}", "count": {"desired": nodes * pool["count"]["desired"]}}
        for i in range(copies)
        for pool in pools
    ]
    platform["teams"] = [
        {
            **team,
            "name": f"{team['name']}-{i}",
            "workloads": [{**load, "pool": f"{load['pool']}-{i % copies}"} for load in team["workloads"]],
        }
        for i in range(size)
        for team in teams
    ]
    return local


def run(command: list[str]) -> tuple[float, str]:
    """Run a command, and return its CPU time in seconds and its output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Modules are compiled only once, as on a user's machine.
    # If every run compiled modules, compilation would dominate both measurements.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=env)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def main() -> None:
    """Measure each size and print one table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    heads = ("teams", "pools", "resources", "render s", "bare SDK s", "ratio", "policies s")
    print("  ".join(heads))
    for size in arguments.sizes:
        document = stack_of(size)
        renders: list[float] = []
        bares: list[float] = []
        policies: list[float] = []
        resources = 0
        with tempfile.TemporaryDirectory() as folder:
            stack = Path(folder) / "Pulumi.bench.yaml"
            stack.write_text(yaml.safe_dump(document), "utf-8")
            bare = Path(folder) / "bare.py"
            bare.write_text(BARE, "utf-8")
            # The programs take turns, so that changes in the machine's speed affect all of them.
            # The first run only compiles modules.
            for number in range(arguments.runs + 1):
                out = Path(folder) / f"out-{number}"
                program = str(Path(sys.executable).with_name("gpu-platform"))
                renders.append(run([program, "render", str(stack), "--out", str(out)])[0])
                bares.append(run([sys.executable, str(bare), str(out / "resources.json")])[0])
                policies.append(float(run([sys.executable, "-c", POLICIES, str(stack)])[1]))
                resources = len(json.loads((out / "resources.json").read_text("utf-8")))
        ours, theirs, rules = (min(side[1:]) for side in (renders, bares, policies))
        platform = document["config"]["gpu-platform:platform"]
        values = (
            str(len(platform["teams"])),
            str(len(platform["pools"])),
            str(resources),
            f"{ours:.2f}",
            f"{theirs:.2f}",
            f"{ours / theirs:.2f}",
            f"{rules:.2f}",
        )
        print("  ".join(value.rjust(len(head)) for value, head in zip(values, heads, strict=True)), flush=True)


if __name__ == "__main__":
    main()
