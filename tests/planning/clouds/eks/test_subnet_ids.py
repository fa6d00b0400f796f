"""Invalid subnet ids: one id in two zones, or a Local Zone subnet for the control plane."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from tests.support.eks_stacks import CREATED, plan_eks

A, B, C = (f"subnet-0a1b2c3d4e5f6071{n}" for n in range(3))
INFERENCE = {"machine_type": "g6.12xlarge", "workload": "inference"}


def refused(cluster: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(BadInput) as caught:
        plan_eks(INFERENCE, cluster=cluster)
    return {one.path: f"{one.found}; {one.allowed}" for one in caught.value.problems}


def new(**network: Any) -> dict[str, Any]:
    vpc = {"vpc": "vpc-0a1b2c3d4e5f60718", **network}
    return {**CREATED, "create": {**CREATED["create"], "network": vpc}}


def test_a_subnet_under_two_zones_is_refused() -> None:
    twice = {"us-east-2a": A, "us-east-2b": A}
    (problem,) = refused(new(subnets=twice)).items()
    assert problem == (
        "cluster.create.network.subnets.us-east-2b",
        f"'{A}' again; each subnet only once (this subnet is under us-east-2a): a subnet is in only one zone",
    )
    pods = refused(new(subnets={"us-east-2a": A, "us-east-2b": B}, pod_subnets={"us-east-2a": C, "us-east-2b": C}))
    assert [*pods] == ["cluster.create.network.pod_subnets.us-east-2b"]
    existing = {"provider": "eks", "name": "ml", "region": "us-east-2", "subnets": twice}
    assert [*refused(existing)] == ["cluster.subnets.us-east-2b"]


def test_pods_cannot_have_the_nodes_subnet_of_another_zone() -> None:
    crossed = {"us-east-2a": B, "us-east-2b": C}
    (text,) = refused(new(subnets={"us-east-2a": A, "us-east-2b": B}, pod_subnets=crossed)).values()
    assert text.startswith(f"{B}, a subnet for nodes")


def test_a_local_zones_subnet_is_refused_for_the_control_plane() -> None:
    subnets = {"us-east-2a": A, "us-east-2b": B, "us-east-2-chi-1a": C}
    (problem,) = refused(new(subnets=subnets, control_plane_subnets=[A, C])).items()
    assert problem[0] == "cluster.create.network.control_plane_subnets[1]"
    assert "the subnet of us-east-2-chi-1a" in problem[1]


def test_a_control_plane_needs_two_different_subnets() -> None:
    subnets = {"us-east-2a": A, "us-east-2b": B}
    (problem,) = refused(new(subnets=subnets, control_plane_subnets=[A, A])).items()
    assert problem[0] == "cluster.create.network.control_plane_subnets[1]"
