"""A pool with spot nodes of four machine types: the output of `check`, and the rendered resources. All cloud
outputs are unknown.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.deploy.recorded.properties import UNKNOWN
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import load_stack
from tests.cli.conftest import Run
from tests.support.recorded import Recorded

TYPES = ["g6e.8xlarge", "g6e.16xlarge", "g6e.4xlarge", "g6e.2xlarge"]
PLATFORM: dict[str, Any] = {
    "kind": "environment",
    "cluster": {
        "provider": "eks",
        "name": "ml",
        "region": "us-east-2",
        "account": "210987654321",
        "create": {"admins": ["arn:aws:iam::210987654321:role/admin"], "api_access": ["203.0.113.0/24"]},
    },
    "pools": [
        {
            "name": "serve",
            "machine_type": TYPES[0],
            "count": {"min": 0, "desired": 0, "max": 8},
            "capacity": {"type": "spot", "alternatives": TYPES[1:]},
            "workload": "inference",
        }
    ],
}


@pytest.fixture
def stack(tmp_path: Path) -> str:
    path = tmp_path / "Pulumi.spot.yaml"
    path.write_text(yaml.safe_dump({"config": {"gpu-platform:platform": PLATFORM}}), "utf-8")
    return str(path)


def test_check_names_the_types_and_who_adds_nodes_and_finds_no_violation(run: Run, stack: str) -> None:
    code, out, _ = run("check", stack)
    assert code == 0
    assert "policies: no violation" in out
    flat = " ".join(out.split())
    assert ", ".join(TYPES) in flat
    assert "the Cluster Autoscaler adds nodes for pending pods" in flat


def test_render_writes_the_node_group_types_and_scale_from_zero_tags(run: Run, stack: str, tmp_path: Path) -> None:
    code, _, _ = run("render", stack, "--out", str(tmp_path / "out"))
    assert code == 0
    resources = json.loads((tmp_path / "out" / "resources.json").read_text("utf-8"))
    (group,) = [one for one in resources if one["type"].endswith(":NodeGroup") and one["name"] == "serve"]
    assert group["inputs"]["instanceTypes"] == TYPES
    tags = [one["inputs"] for one in resources if one["type"] == "aws:autoscaling/tag:Tag"]
    key = "k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/gpu"
    assert [one["tag"]["value"] for one in tags if one["tag"]["key"] == key] == ["1"]


def test_a_preview_contains_the_tags_of_a_future_auto_scaling_group(stack: str) -> None:
    tags = Recorded(record_stack(load_stack(stack))).of("Tag")
    assert tags
    assert {tag.inputs["autoscalingGroupName"] for tag in tags} == {UNKNOWN}
