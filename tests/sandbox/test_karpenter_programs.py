"""When Karpenter is built for a sandbox, which machine types it may create, and how its nodes become simulated
nodes.
"""

from __future__ import annotations

from typing import Any

from gpu_platform.base.progress import Progress
from gpu_platform.catalog import load_catalog
from sandbox import build
from sandbox._modules import KARPENTER, KARPENTER_MODULE
from sandbox.karpenter.instance_types import ZONES, instance_types
from sandbox.simulator.nodes import is_simulated, unannounced_machine
from tests.sandbox.test_control_plane_build import Go, cache, go

__all__ = ["cache", "go"]  # fixtures

QUIET = Progress(quiet=True)


def node(**rest: Any) -> dict[str, Any]:
    metadata = {
        "name": "kwok-develop-1",
        "labels": {"node.kubernetes.io/instance-type": "g6.4xlarge"},
        "annotations": {"kwok.x-k8s.io/node": "fake"},
    }
    return {"metadata": metadata | rest, "spec": {"providerID": "kwok://kwok-develop-1"}}


def test_the_program_is_of_the_release_whose_chart_clouds_get() -> None:
    assert KARPENTER.pinned(KARPENTER_MODULE) == f"v{load_catalog().charts['karpenter'].version}"


def test_a_sandbox_without_karpenter_builds_none(go: Go) -> None:
    go.install()
    build.binaries(QUIET)
    assert not any("karpenter" in command for command in go.calls("build"))
    assert not build.has_karpenter()


def test_karpenter_may_create_every_priced_ec2_type_in_three_zones() -> None:
    found = {one["name"]: one for one in instance_types(load_catalog())}
    assert not any("-" in name.split(".")[1] for name in found)
    p5 = found["p5.48xlarge"]
    assert p5["resources"]["nvidia.com/gpu"] == "8"
    assert "nvidia.com/gpu" not in found["m7i.large"]["resources"]
    assert len(p5["offerings"]) == 2 * len(ZONES)
    assert "p5e.48xlarge" not in found  # sold only as a capacity block, so it has no list price


def test_spot_is_cheaper_than_on_demand_and_both_cost_something() -> None:
    (name,) = [one for one in instance_types(load_catalog()) if one["name"] == "g6.4xlarge"]
    prices = {
        requirement["values"][0]: offering["Price"]
        for offering in name["offerings"]
        for requirement in offering["Requirements"]
        if requirement["key"] == "karpenter.sh/capacity-type"
    }
    assert 0 < prices["spot"] < prices["on-demand"]


def test_a_node_that_karpenter_created_is_simulated_once_it_names_its_machine_type() -> None:
    created = node()
    assert unannounced_machine(created) == "g6.4xlarge"
    assert not is_simulated(created)
    noted = {"kwok.x-k8s.io/node": "fake", "sandbox.gpu-platform.dev/machine-type": "g6.4xlarge"}
    announced = node(annotations=noted)
    assert unannounced_machine(announced) is None
    assert is_simulated(announced)


def test_a_node_of_something_else_or_one_that_is_deleted_is_left_alone() -> None:
    assert unannounced_machine({**node(), "spec": {}}) is None
    assert unannounced_machine(node(deletionTimestamp="2026-11-25T00:00:00Z")) is None
