"""Who installs the controllers of an existing EKS cluster, and what the cluster must provide."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpu_platform.planning.clouds.eks.existing_cluster import check_looked_up, required_addons
from gpu_platform.planning.clouds.parts import InstalledPart, part_problems
from tests.planning.clouds.eks.test_cluster import (
    KARPENTER,
    SERVE,
    TRAIN,
    cloud,
    created,
    decisions,
    eks,
    problems,
)
from tests.planning.clouds.eks.test_lookup import GOOD

TWO_SUBNETS = {"us-east-2a": "subnet-0a1b2c3d4e5f60718", "us-east-2b": "subnet-1a1b2c3d4e5f60718"}
EFA = {**TRAIN, "zones": ["us-east-2a"]}
OWNERS = InstalledPart(
    part="karpenter",
    kind="Deployment",
    namespace="karpenter",
    name="karpenter",
    version="1.9.0",
    release=("karpenter", "karpenter"),
)
OURS = replace(OWNERS, namespace="kube-system", release=("kube-system", "karpenter"))
OWN_RELEASES = {("kube-system", "karpenter")}


def refused(found: list[InstalledPart], **parts: Any) -> list[str]:
    plan = cloud(eks(parts=parts), KARPENTER)
    return [str(problem) for problem in part_problems(plan.parts, found, OWN_RELEASES)]


def test_only_parts_that_the_pools_need_are_planned() -> None:
    assert [part.name for part in cloud(eks(), SERVE).parts] == []
    assert [part.name for part in cloud(eks(), EFA, KARPENTER).parts] == ["karpenter", "efa_plugin"]


def test_what_is_present_is_not_installed() -> None:
    plan = cloud(eks(parts={"karpenter": "present", "efa_plugin": "present"}), EFA, KARPENTER)
    assert (plan.karpenter, plan.efa_plugin) == (None, None)
    assert plan.karpenter_pools
    assert "eks-pod-identity-agent" not in required_addons(plan)
    one = cloud(eks(parts={"karpenter": "present"}), EFA, KARPENTER)
    assert one.efa_plugin is not None


def test_a_decision_states_what_the_owner_of_the_cluster_must_allow() -> None:
    chosen, why = decisions(eks(parts={"karpenter": "present"}), KARPENTER)["Karpenter"]
    assert chosen == "present"
    assert "iam:PassRole" in why
    with_role = eks(parts={"karpenter": "present", "karpenter_node_role": "KarpenterNodeRole-ml"})
    assert "KarpenterNodeRole-ml" in decisions(with_role, KARPENTER)["Karpenter"][1]
    assert "tolerate" in decisions(eks(parts={"efa_plugin": "present"}), EFA)["EFA device plugin"][1]


def test_karpenter_in_an_unknown_network_states_its_need_of_the_iam_api() -> None:
    network = {"vpc": "vpc-0a1b2c3d4e5f60718", "subnets": TWO_SUBNETS}
    for cluster in (eks(), eks(parts={"karpenter": "present"}), created({"network": network})):
        why = decisions(cluster, KARPENTER)["Karpenter"][1]
        assert "must reach the IAM API" in why
        assert "only in the Region of IAM's control plane" in why, "also in GovCloud"
    assert "Karpenter" not in decisions(created(), KARPENTER), "the program's VPC has NAT gateways"


def test_a_role_of_the_owner_needs_no_access_entry_of_the_program() -> None:
    by_config_map = replace(GOOD, authentication_mode="CONFIG_MAP")
    own = cloud(eks(parts={"karpenter": "present"}), {**KARPENTER, "zones": ["us-east-2a"]})
    assert [problem.path for problem in check_looked_up(by_config_map, own)] == ["cluster.name"]
    assert check_looked_up(by_config_map, replace(own, karpenter_node_role="KarpenterNodeRole-ml")) == []


def test_a_controller_of_somebody_else_is_not_installed_over() -> None:
    (text,) = refused([OWNERS])
    assert text.startswith(
        "cluster.parts.karpenter: found install, but the cluster has Deployment karpenter 1.9.0 in"
    )
    assert "write cluster.parts.karpenter: present to use the existing installation" in text
    assert refused([replace(OWNERS, release=None)]) != [], "kubectl apply"


def test_the_stacks_own_controller_and_no_controller_are_no_reason() -> None:
    assert refused([]) == []
    assert refused([OURS]) == []
    assert len(refused([OURS, OWNERS])) == 1


def test_a_controller_that_must_be_present_and_is_missing_is_a_problem() -> None:
    assert refused([OWNERS], karpenter="present") == []
    (text,) = refused([], karpenter="present")
    assert "the cluster has no Karpenter;" in text
    (text,) = refused([OURS], karpenter="present")
    assert "except the one from this stack" in text


@pytest.mark.parametrize("part", ["karpenter", "efa_plugin"])
def test_a_new_cluster_has_no_controllers_of_an_owner(part: str) -> None:
    assert list(problems(created(parts={part: "present"}), SERVE)) == [f"cluster.parts.{part}"]


def test_a_role_of_nodes_is_only_for_a_karpenter_that_is_present() -> None:
    found = problems(eks(parts={"karpenter_node_role": "KarpenterNodeRole-ml"}), KARPENTER)
    assert list(found) == ["cluster.parts.karpenter_node_role"]


def test_one_role_for_node_groups_and_for_nodes_of_karpenter_is_refused() -> None:
    parts = {"karpenter": "present", "karpenter_node_role": "gpu"}
    shared = eks(parts=parts, iam={"node_role": "arn:aws:iam::123456789012:role/nodes/gpu"})
    assert "EKS deletes the access entry" in problems(shared, KARPENTER)["cluster.parts.karpenter_node_role"]
    assert cloud(eks(parts=parts, iam={"node_role": "arn:aws:iam::123456789012:role/nodes"}), KARPENTER)


RESERVED = {"type": "reservation", "reservation": "cr-0a1b2c3d4e5f60718", "zone": "us-east-2a"}
EFA_OF_KARPENTER = {**KARPENTER, "machine_type": "p5.48xlarge", "workload": "training", "zones": ["us-east-2a"]}
RESERVED_OF_KARPENTER = {**KARPENTER, "capacity": RESERVED}
BLOCK = {**RESERVED, "type": "capacity-block", "ends": "2027-06-01T11:30:00Z"}
BLOCK_OF_KARPENTER = {**KARPENTER, "machine_type": "p5.48xlarge", "network": {"rdma": False}, "capacity": BLOCK}


@pytest.mark.parametrize(
    ("pool", "too_old", "least"),
    [
        (KARPENTER, "0.37.0", "1.0.0"),
        (RESERVED_OF_KARPENTER, "1.2.3", "1.3.0"),
        (BLOCK_OF_KARPENTER, "1.5.9", "1.6.0"),
        (EFA_OF_KARPENTER, "1.10.2", "1.11.0"),
    ],
)
def test_an_owners_karpenter_without_the_rendered_fields_is_refused(
    pool: dict[str, Any], too_old: str, least: str
) -> None:
    plan = cloud(eks(parts={"karpenter": "present", "efa_plugin": "present"}), pool)
    parts = [part for part in plan.parts if part.name == "karpenter"]

    def refused_at(version: str) -> list[str]:
        there = replace(OWNERS, version=version)
        return [str(problem) for problem in part_problems(parts, [there], OWN_RELEASES)]

    (text,) = refused_at(too_old)
    assert f"Deployment karpenter {too_old} in namespace karpenter; allowed: Karpenter {least} or newer" in text
    assert "ask the owner to upgrade it" in text
    assert [refused_at(one) for one in (least, f"v{least}", "2.0.0", "", "main")] == [[]] * 5


def test_requirements_on_the_owners_karpenter_are_stated() -> None:
    present = eks(parts={"karpenter": "present", "efa_plugin": "present"})
    plain = decisions(present, KARPENTER)["Karpenter"][1]
    assert "release 1.0.0 or newer" in plain
    assert "ReservedCapacity" not in plain
    assert "placement" not in plain
    reserved = decisions(present, RESERVED_OF_KARPENTER)["Karpenter"][1]
    assert "ReservedCapacity must be on, which is the default from 1.6" in reserved
    assert "ec2:DescribeCapacityReservations" in reserved
    grouped = decisions(present, {**EFA_OF_KARPENTER, "capacity": {**RESERVED, "placement_group": "efa"}})
    assert "ec2:DescribePlacementGroups" in grouped["Karpenter"][1]


def test_what_the_owners_cluster_autoscaler_must_read_is_said() -> None:
    scaled = {**SERVE, "count": {"min": 0, "desired": 0, "max": 2}}
    why = decisions(eks(parts={"cluster_autoscaler": "present"}), scaled)["Cluster Autoscaler"][1]
    assert "eks:DescribeNodegroup" in why
