"""How many disks of claims a node can attach, and what `check` prints about pods that need more."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.planning import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform
from tests.planning.conftest import environment, pool, team

EXISTING = {"provider": "eks", "name": "prod", "region": "us-east-2"}
ADMINS = {"admins": ["arn:aws:iam::123456789012:role/admin"]}
CREATED = {**EXISTING, "create": ADMINS}
POD_SUBNETS = {**EXISTING, "create": {**ADMINS, "pods_cidr": "100.64.0.0/16"}}
LAB: dict[str, Any] = {"machine_type": "g5.48xlarge", "workload": "development", "zones": ["us-east-2a"]}
P4DE: dict[str, Any] = {"machine_type": "p4de.24xlarge", "workload": "inference"}
KARPENTER = {"provisioner": "karpenter", "count": {"desired": 0, "max": 1}}


def plan(
    cluster: dict[str, Any], *, notebooks: int = 0, storage_class: str = "disk", **rest: Any
) -> EnvironmentPlan:
    """Return the plan of a pool with one node, and of notebooks that each have a claim."""
    entries = [
        {
            "name": f"lab-{index}",
            "pool": "train",
            "image": "registry.example.com/lab:1",
            "home": {"directory": "/home/me", "storage_class": storage_class, "size": "1200Gi"},
        }
        for index in range(notebooks)
    ]
    storage = {"disk": {"type": "disk", "default": True}} | ({"shared": {"type": "nfs"}} if notebooks else {})
    spec: dict[str, Any] = {"count": {"desired": 1}, **LAB, **rest}
    stack = environment(
        pool(**spec),
        cluster=cluster,
        storage=storage,
        teams=[team(quota={"gpus": 8}, notebooks=entries)] if notebooks else [],
    )
    made = plan_platform(stack, "test")
    assert isinstance(made, EnvironmentPlan)
    return made


def printed(made: EnvironmentPlan, what: str) -> list[str]:
    return [one.chosen for one in made.decisions if one.what == what]


@pytest.mark.parametrize(
    ("cluster", "spec", "disks"),
    [
        (CREATED, {}, 8),
        (POD_SUBNETS, {}, 7),
        (EXISTING, {}, 7),
        (CREATED, KARPENTER, 8),
        (CREATED, {"image": {"family": "bottlerocket"}}, 7),
        (POD_SUBNETS, P4DE, 27),
        (CREATED, {"machine_type": "g6.xlarge", "workload": "inference"}, 31),
    ],
)
def test_a_node_attaches_the_disks_that_ec2_leaves_for_claims(
    cluster: dict[str, Any], spec: dict[str, Any], disks: int
) -> None:
    (found,) = plan(cluster, **spec).pools
    assert found.cloud_nodes.volumes == disks


def test_more_declared_disks_than_nodes_attach_are_a_warning() -> None:
    found = printed(plan(POD_SUBNETS, notebooks=8), "warning: disks")
    assert found == [
        "8 declared workloads, each with a disk, but at most 7 disks on each node, and at most 1 node"
    ]


def test_declared_disks_that_nodes_attach_are_no_warning() -> None:
    assert printed(plan(CREATED, notebooks=8), "warning: disks") == []


def test_volumes_of_shared_file_systems_are_no_disks() -> None:
    assert printed(plan(POD_SUBNETS, notebooks=8, storage_class="shared"), "warning: disks") == []


def test_a_decision_states_that_a_node_offers_more_instances_than_disks() -> None:
    mig = {"sharing": {"mode": "mig", "layout": {"1g.10gb": 7}}}
    assert printed(plan(CREATED, **P4DE, **mig), "disks of pods") == [
        "at most 27 on a node that offers 56 GPUs, shares or instances"
    ]
    assert printed(plan(CREATED, **P4DE), "disks of pods") == []
