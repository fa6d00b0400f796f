"""The system nodes, API server access and Kubernetes support that a stack file chooses for a new EKS cluster."""

from __future__ import annotations

from typing import Any

import pytest

from tests.planning.clouds.eks.test_cluster import SERVE, cloud, create_plan, created, decisions, problems

# -- system nodes -----------------------------------------------------------------------------------------


def test_a_decision_states_what_the_system_nodes_must_hold() -> None:
    chosen, why = decisions(created())["system nodes"]
    assert chosen == "2 nodes of m7i.large or m6i.large, at least 2 and at most 4"
    assert "GPU Operator 1 x 0.2 CPU" in why
    assert "your own controllers need a larger type" in why
    _, why = decisions(created({"system": {"machine_types": ["t3.medium"]}}))["system nodes"]
    assert "it is not known whether" in why


@pytest.mark.parametrize("machine", ["m7i.2xlarge", "c7i-flex.large", "r6id.metal", "t3.medium", "m7a.48xlarge"])
def test_x86_machine_types_without_accelerators_are_system_nodes(machine: str) -> None:
    assert create_plan(created({"system": {"machine_types": [machine]}})).system_pool.instance_types == (machine,)


@pytest.mark.parametrize(
    "machine",
    ["m7g.large", "c6gn.xlarge", "t4g.large", "x2gd.large", "p5.48xlarge", "g6.xlarge", "m7i", "t3.micro"],
)
def test_other_machine_types_are_refused_as_system_nodes(machine: str) -> None:
    found = problems(created({"system": {"machine_types": [machine]}}))
    assert "x86 CPUs" in found["cluster.create.system.machine_types[0]"]


@pytest.mark.parametrize(
    ("system", "place", "text"),
    [
        ({"min": 1, "desired": 1}, "min", "2 or more"),
        ({"desired": 5}, "", "min <= desired <= max"),
        ({"release": "1.34.8-20260818"}, "release", "begins with 1.35"),
        ({"release": "v20260818"}, "release", ""),
    ],
)
def test_system_nodes_that_cannot_run_the_cluster_are_refused(
    system: dict[str, Any], place: str, text: str
) -> None:
    found = problems(created({"system": system}, kubernetes="1.35"))
    assert text in found[".".join(filter(None, ["cluster.create.system", place]))]
    assert create_plan(created({"system": {"min": 1, "desired": 1}}, production=False)).system_pool.min_size == 1


# -- who reaches the API server ---------------------------------------------------------------------------

EVERYWHERE = [
    ["0.0.0.0/0"],
    ["0.0.0.0/1", "128.0.0.0/1"],
    ["203.0.113.0/24", "64.0.0.0/3"],
    ["16.0.0.0/8", "17.0.0.0/8"],
]


@pytest.mark.parametrize("networks", EVERYWHERE, ids=str)
def test_an_api_server_for_much_of_the_internet_must_be_spelled_out(networks: list[str]) -> None:
    found = problems(created({"api_access": networks}))
    assert list(found) == ["cluster.create.api_access"]
    assert "api_from_anywhere: true" in found["cluster.create.api_access"]
    open_to_all = created({"api_access": networks, "api_from_anywhere": True})
    assert create_plan(open_to_all).api_access == tuple(networks)
    assert "protected only by IAM" in decisions(open_to_all)["warning: API server"][1]


def test_an_opening_that_nothing_needs_is_refused() -> None:
    found = problems(created({"api_access": ["203.0.113.0/24"], "api_from_anywhere": True}))
    assert list(found) == ["cluster.create.api_from_anywhere"]


@pytest.mark.parametrize("network", ["10.0.0.0/8", "172.20.0.0/16", "192.168.1.0/24", "100.64.0.0/10"])
def test_private_networks_reach_the_private_address(network: str) -> None:
    create = create_plan(created({"api_access": [network, "203.0.113.0/24"]}))
    assert (create.private_networks, create.public_networks) == ((network,), ("203.0.113.0/24",))


def test_a_network_that_is_partly_private_is_refused() -> None:
    found = problems(created({"api_access": ["172.0.0.0/11"]}))["cluster.create.api_access"]
    assert "overlaps the private range 172.16.0.0/12" in found


def test_more_networks_than_eks_takes_are_refused() -> None:
    public = [f"203.0.{third}.0/24" for third in range(41)]
    assert "at most 40" in problems(created({"api_access": public}))["cluster.create.api_access"]
    private = [f"10.{second}.0.0/16" for second in range(51)]
    assert "at most 50" in problems(created({"api_access": private}))["cluster.create.api_access"]


def test_a_first_up_that_reaches_no_api_server_is_refused_with_the_way() -> None:
    network = {
        "vpc": "vpc-0a1b2c3d4e5f60718",
        "subnets": {"us-east-2a": "subnet-0a1b2c3d4e5f60718", "us-east-2b": "subnet-1a1b2c3d4e5f60718"},
    }
    for create in ({}, {"api_access": ["10.0.0.0/16"]}):
        problem = cloud(created(create)).first_up_problem
        assert problem is not None
        assert "the VPC does not exist yet" in problem.found
    inside = cloud(created({"network": network})).first_up_problem
    assert inside is not None
    assert "api_access: [10.0.0.0/16]" in inside.fix
    assert cloud(created({"network": network, "api_access": ["10.0.0.0/16"]})).first_up_problem is None


@pytest.mark.parametrize("admin", ["role/*", "role/a?", "user/", "root", "assumed-role/a/b"])
def test_an_admin_is_one_role_or_user(admin: str) -> None:
    found = problems(created({"admins": [f"arn:aws:iam::123456789012:{admin}"]}))
    assert "without wildcards" in found["cluster.create.admins[0]"]


def test_the_role_that_up_assumes_must_be_an_admin() -> None:
    role = "arn:aws:iam::123456789012:role/deployer"
    found = problems(created(assume_role=role))
    assert list(found) == ["cluster.create.admins"]
    assert f"add {role}" in found["cluster.create.admins"]
    assert create_plan(created({"admins": [role]}, assume_role=role)).admins == (role,)


@pytest.mark.parametrize(
    "key",
    [
        "eks:team",
        "Name",
        "kubernetes.io/cluster/other",
        "kubernetes.io/role/elb",
        "k8s.io/cluster-autoscaler/enabled",
        "karpenter.sh/nodepool",
        "karpenter.k8s.aws/ec2nodeclass",
        "gpu-platform.dev/stack",
    ],
)
def test_tags_of_aws_and_controllers_are_refused(key: str) -> None:
    assert list(problems(created(tags={key: "x", "team": "ml"}))) == [f"cluster.tags.{key}"]


def test_tags_that_are_one_to_iam_are_refused() -> None:
    found = problems(created(tags={"CostCenter": "a", "costcenter": "b"}))
    assert "'costcenter' and 'CostCenter'" in found["cluster.tags.costcenter"]


def test_a_zone_twice_is_refused() -> None:
    found = problems(created({"zones": ["us-east-2a", "us-east-2b", "us-east-2a"]}))
    assert "each zone once" in found["cluster.create.zones[2]"]


def test_a_zone_that_only_a_pool_names_is_warned_of() -> None:
    cluster = created({"zones": ["us-east-2a", "us-east-2b"]})
    chosen, _ = decisions(cluster, {**SERVE, "zones": ["us-east-2c"]})["warning: zones"]
    assert chosen == "us-east-2c, which a pool names and create.zones does not"
    assert "warning: zones" not in decisions(cluster, {**SERVE, "zones": ["us-east-2b"]})
    assert "warning: zones" not in decisions(created(), {**SERVE, "zones": ["us-east-2b"]})


def test_a_decision_states_what_happens_at_the_end_of_standard_support() -> None:
    chosen, why = decisions(created(kubernetes="1.34"))["support"]
    assert (chosen, "1.34: 2026-12-02" in why, "automatically" in why) == ("standard", True, True)
    chosen, why = decisions(created({"support": "extended"}, kubernetes="1.34"))["support"]
    assert (chosen, "for 0.6 instead of 0.1 USD/h" in why) == ("extended", True)
