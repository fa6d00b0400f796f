"""Pools with different node images in one cluster. Exactly one device plugin runs on each rendered pool."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import LoadedStack, plan_platform
from policies import evaluate
from tests.support.recorded import Recorded

TODAY = datetime.date(2026, 11, 21)
EKS = {
    "cluster": {
        "provider": "eks",
        "name": "ml",
        "region": "us-east-2",
        "kubernetes": "1.34",
        "create": {"admins": ["arn:aws:iam::123456789012:role/admin"]},
    },
    "pools": [
        {"name": "plain", "machine_type": "g6.12xlarge"},
        {"name": "bottled", "machine_type": "g6.12xlarge", "image": {"family": "bottlerocket"}},
        {
            "name": "karpenters",
            "machine_type": "g6.12xlarge",
            "image": {"family": "bottlerocket"},
            "provisioner": "karpenter",
            "count": {"desired": 0, "max": 2},
        },
    ],
}
GKE = {
    "cluster": {
        "provider": "gke",
        "name": "ml",
        "project": "my-project",
        "location": "us-central1",
        "kubernetes": "1.34",
        "create": {},
    },
    "pools": [
        {"name": "ours", "machine_type": "g2-standard-48", "zones": ["us-central1-a"]},
        {
            "name": "googles",
            "machine_type": "g2-standard-48",
            "zones": ["us-central1-a"],
            "device_plugin": "provider",
        },
    ],
}


def rendered(spec: dict[str, Any]) -> Recorded:
    pools = [{"count": {"desired": 1}, "workload": "inference", **one} for one in spec["pools"]]
    platform = {"kind": "environment", **spec, "pools": pools}
    return Recorded(record_stack(LoadedStack("test", Path("test"), platform, plan_platform(platform, "test"))))


def without_label(records: list[dict[str, Any]], label: str) -> list[dict[str, Any]]:
    """Return copies of the records without this label."""

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: strip(item) for key, item in value.items() if key != label}
        return [strip(item) for item in value] if isinstance(value, list) else value

    return [{**record, "inputs": strip(record["inputs"])} for record in records]


@pytest.mark.parametrize(
    ("spec", "label", "pools"),
    [
        (EKS, "nvidia.com/gpu.deploy.operands", {"bottled", "karpenters"}),
        (GKE, "nvidia.com/gpu.deploy.operands", {"googles"}),
        (GKE, "gke-no-default-nvidia-gpu-device-plugin", {"ours"}),
    ],
    ids=["eks", "gke-operators", "gke-own"],
)
def test_each_pool_has_one_device_plugin_selected_only_by_its_label(
    spec: dict[str, Any], label: str, pools: set[str]
) -> None:
    records = [one.to_json() for one in rendered(spec).resources]
    config = {"all": "disabled", "plugin-ownership": "mandatory"}
    assert evaluate(records, config, TODAY).violations == ()
    found = evaluate(without_label(records, label), config, TODAY).violations
    assert {violation.subject for violation in found} == pools
