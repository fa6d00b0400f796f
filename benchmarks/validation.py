"""Measures the CPU time that the validation of a fleet takes: the agent's checks on each node, and the report on
all nodes.

Run it by hand: .venv/bin/python benchmarks/validation.py [--nodes 10 100 1000] [--machine p5.48xlarge]

The figures are CPU seconds. NVML is simulated on each node; the pynvml bindings are real. This process reads and
checks the nodes one after another, although on a real node an agent checks only its own node. Some nodes have a
random fault. If a fault is not detected, the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from gpu_platform.base import names
from gpu_platform.catalog import load_catalog
from gpu_platform.planning.expectations import DeclaredNode, expectations_for_machine
from gpu_platform.planning.expectations.section import NodeExpectation
from sandbox.nvml import NodeProfile, install
from validators.agent.calls import Journal
from validators.agent.checks import run_checks, verdict_of
from validators.agent.expectations import parse_expectations
from validators.agent.nvml import read_nvml
from validators.report import ExpectedPool, build_report

DRIVER = "580.105.08"
FAULTS: Sequence[Mapping[str, Any]] = (
    {"kind": "gpu-missing"},
    {"kind": "gpu-lost"},
    {"kind": "nvlink-degraded"},
    {"kind": "ecc-pending"},
    {"kind": "row-remap-failed"},
    {"kind": "thermal"},
    {"kind": "power-brake"},
)


def main() -> int:
    """Print a line for each size; return 1 if a fault was not detected, otherwise 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--machine", default="p5.48xlarge")
    parser.add_argument("--faults", type=int, default=10, help="number of nodes with a random fault")
    parsed = parser.parse_args()
    print(f"{'nodes':>6} {'agents, s':>10} {'ms/node':>8} {'report, s':>10} {'ms/node':>8} {'faults found':>13}")
    measure(2, parsed.machine, 1)  # import modules and fill caches before the measurement
    missed = 0
    for count in parsed.nodes:
        broken = min(parsed.faults, count)
        read, built, found = measure(count, parsed.machine, broken)
        missed += broken - found
        figures = f"{read:>10.2f} {read / count * 1000:>8.1f} {built:>10.3f} {built / count * 1000:>8.2f}"
        print(f"{count:>6} {figures} {f'{found} of {broken}':>13}", flush=True)
    return 1 if missed else 0


def measure(count: int, machine_type: str, broken: int) -> tuple[float, float, int]:
    """Return the CPU seconds of all agents and of the report, and the number of faulty nodes that were found."""
    catalog = load_catalog()
    machine = catalog.machine_types[machine_type]
    expectations = expectations_for_machine(machine, catalog, DeclaredNode(pool="train", driver_version=DRIVER))
    parsed = parse_expectations(json.dumps(expectations.to_json()), "benchmark")
    chance = random.Random(count)
    faulty = {f"train-{index}": chance.choice(FAULTS) for index in chance.sample(range(count), broken)}
    reports: dict[str, dict[str, Any]] = {}
    took = 0.0
    for index in range(count):
        node = f"train-{index}"
        faults = [{**faulty[node], "index": chance.randrange(machine.gpu_count)}] if node in faulty else []
        profile = NodeProfile.model_validate(
            {"machine_type": machine_type, "driver_version": DRIVER, "node": node, "faults": faults}
        )
        with install(profile):
            begin = time.process_time()
            checks = run_checks(read_nvml(Journal(), lambda _: None), parsed)
            took += time.process_time() - begin
        reports[node] = {
            "version": 1,
            "expectations_hash": expectations.hash,
            "duration_seconds": 0.0,
            "time": "2026-11-25T00:00:00+00:00",
            "verdict": verdict_of(checks),
            "checks": checks,
        }
    pool = ExpectedPool(
        hardware=expectations,
        node=NodeExpectation(pool="train", allocatable={names.GPU_RESOURCE: machine.gpu_count}, labels={}),
        selector={},
        least=count,
        most=count,
    )
    nodes = [_node(name, machine.gpu_count) for name in reports]
    begin = time.process_time()
    report = build_report([pool], nodes, reports)
    json.dumps(report.to_json())
    built = time.process_time() - begin
    return took, built, sum(one.verdict == "fail" for one in report.nodes if one.node in faulty)


def _node(name: str, gpus: int) -> dict[str, Any]:
    offered = {names.GPU_RESOURCE: str(gpus)}
    status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": offered, "capacity": offered}
    return {"metadata": {"name": name, "labels": {}}, "spec": {}, "status": status}


if __name__ == "__main__":
    sys.exit(main())
