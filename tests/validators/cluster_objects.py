"""API objects for the tests of the cluster checks: a healthy node, and the expectations of its pool."""

from __future__ import annotations

import copy
import json
from typing import Any

from gpu_platform.planning.expectations.section import Expectation, Expectations, NodeExpectation
from validators.agent import AGENT_VERSION
from validators.report import ExpectedPool

TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
LABELS = {
    "gpu-platform.dev/pool": "serve",
    "nvidia.com/device-plugin.config": "serve",
    "nvidia.com/gpu.product": "NVIDIA-A10G",
}
NODE: dict[str, Any] = {
    "metadata": {"name": "serve-0", "labels": {**LABELS, "kubernetes.io/os": "linux"}},
    "spec": {"taints": [TAINT]},
    "status": {
        "conditions": [{"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
        "capacity": {"cpu": "48", "nvidia.com/gpu.shared": "16", "nvidia.com/gpu": "0"},
        "allocatable": {"cpu": "47", "nvidia.com/gpu.shared": "16", "nvidia.com/gpu": "0"},
    },
}
EXPECTED = NodeExpectation(
    pool="serve",
    allocatable={"nvidia.com/gpu.shared": 16},
    labels=LABELS,
    taints=(TAINT,),
    sources={"nvidia.com/gpu.shared": "stack: pools[1].sharing on 4 GPUs"},
)
HARDWARE = Expectations("serve", "g5.12xlarge", {"gpu-count": Expectation(4, "machine type g5.12xlarge")})
POOL = ExpectedPool(hardware=HARDWARE, node=EXPECTED, selector={"gpu-platform.dev/pool": "serve"}, least=1, most=1)


def node(name="serve-0", **changes):
    """Return a healthy node with changes to its `labels`, `allocatable`, `taints` or `conditions`."""
    changed = copy.deepcopy(NODE)
    changed["metadata"]["name"] = name
    for part, value in changes.items():
        if part == "labels":
            labels = {**changed["metadata"]["labels"], **value}
            changed["metadata"]["labels"] = {key: each for key, each in labels.items() if each is not None}
        elif part == "taints":
            changed["spec"]["taints"] = value
        else:
            changed["status"][part] = value
    return changed


def agent_report(name="serve-0", *checks, **changes):
    """Return the agent's report about a node. Without checks, the report passes."""
    return {
        "version": 1,
        "node": name,
        "pool": "serve",
        "machine_type": "g5.12xlarge",
        "pod_uid": f"uid-{name}",
        "expectations_hash": HARDWARE.hash,
        "agent_version": AGENT_VERSION,
        "time": "2026-11-21T12:00:00+00:00",
        "duration_seconds": 0.4,
        "verdict": "pass",
        "checks": list(checks) or [entry("gpu-count", "pass", "4")],
    } | changes


def entry(check, verdict, observed, device=None, severity="critical"):
    """Return one entry of an agent's report."""
    attention = verdict in ("fail", "unknown")
    return {
        "id": check,
        "device": device,
        "verdict": verdict,
        "expected": "4",
        "observed": observed,
        "severity": severity,
        "source": "machine type g5.12xlarge",
        "remediation": "drain the node" if attention else "",
    }


def config_map(report, name="serve-0"):
    """Return the ConfigMap that the agent publishes."""
    return {
        "metadata": {
            "name": f"node-validation-{name}",
            "labels": {"gpu-platform.dev/validation-report": "serve"},
        },
        "data": {"report.json": report if isinstance(report, str) else json.dumps(report)},
    }
