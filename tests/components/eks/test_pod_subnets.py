"""A new EKS cluster with separate subnets for pods: VPC CNI settings, and nodes without a free interface."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import load_catalog
from tests.support.eks_stacks import CREATED, plan_eks, record_eks
from tests.support.recorded import Recorded

SUBNETS = {"us-east-2a": "subnet-0a1b2c3d4e5f60718", "us-east-2b": "subnet-1a1b2c3d4e5f60718"}
PODS = {"us-east-2a": "subnet-5a1b2c3d4e5f60718", "us-east-2b": "subnet-6a1b2c3d4e5f60718"}
NETWORK = {"vpc": "vpc-0a1b2c3d4e5f60718", "subnets": SUBNETS, "pod_subnets": PODS}
TRAIN = {"zones": ["us-east-2a"], "network": {"layout": "efa-primary"}}


def cluster(create: dict[str, Any]) -> dict[str, Any]:
    return {**CREATED, "create": {**CREATED["create"], **create}}


def vpc_cni(recorded: Recorded) -> dict[str, Any]:
    [addon] = [one for one in recorded.of("Addon") if one.inputs["addonName"] == "vpc-cni"]
    return json.loads(addon.inputs["configurationValues"])


def refusals(create: dict[str, Any], *pools: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(BadInput) as caught:
        plan_eks(*(pools or (TRAIN,)), cluster=cluster(create))
    return {
        problem.path: f"{problem.found}; {problem.allowed}; {problem.fix}" for problem in caught.value.problems
    }


def test_the_vpc_cni_gives_pods_the_subnet_that_is_named_for_the_zone_of_their_node() -> None:
    recorded = record_eks(TRAIN, cluster=cluster({"network": NETWORK}))
    configured = vpc_cni(recorded)
    assert configured["env"]["AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG"] == "true"
    assert configured["env"]["ENI_CONFIG_LABEL_DEF"] == "topology.kubernetes.io/zone"
    assert configured["env"]["ENABLE_PREFIX_DELEGATION"] == "true"
    assert configured["eniConfig"] == {
        "create": True,
        "region": "us-east-2",
        "subnets": {zone: {"id": subnet} for zone, subnet in PODS.items()},
    }
    # Nodes and the control plane stay in their own subnets.
    assert recorded.one("NodeGroup", "train").inputs["subnetIds"] == [SUBNETS["us-east-2a"]]
    [eks] = recorded.of("Cluster")
    assert set(eks.inputs["vpcConfig"]["subnetIds"]) == set(SUBNETS.values())


def test_without_subnets_of_pods_the_vpc_cni_has_no_custom_networking() -> None:
    configured = vpc_cni(record_eks(TRAIN, cluster=CREATED))
    assert "eniConfig" not in configured
    assert "AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG" not in configured["env"]


def test_a_new_vpc_gets_a_secondary_range_with_a_pod_subnet_per_zone() -> None:
    recorded = record_eks(TRAIN, cluster=cluster({"pods_cidr": "100.64.0.0/16"}))
    [extended] = recorded.of("VpcIpv4CidrBlockAssociation")
    assert extended.inputs["cidrBlock"] == "100.64.0.0/16"
    of_pods = {one.inputs["availabilityZone"]: one for one in recorded.of("Subnet") if "-pods-" in one.name}
    assert {zone: one.inputs["cidrBlock"] for zone, one in of_pods.items()} == {
        "us-east-2a": "100.64.0.0/19",
        "us-east-2b": "100.64.32.0/19",
    }
    for zone, subnet in of_pods.items():
        assert extended.urn in subnet.dependencies, "AWS refuses a subnet outside the ranges of the VPC"
        assert "kubernetes.io/role/internal-elb" not in subnet.inputs["tags"], (
            "load balancers must not use the addresses of a pod subnet"
        )
        [routed] = [one for one in recorded.of("RouteTableAssociation") if one.name == subnet.name]
        table = recorded.one("RouteTable", f"{CREATED['name']}-private-{zone}")
        assert table.urn in routed.property_dependencies["routeTableId"]
        assert routed.urn in recorded.one("LaunchTemplate", "train").dependencies, "nodes start after the routes"
    [addon] = [one for one in recorded.of("Addon") if one.inputs["addonName"] == "vpc-cni"]
    assert {one.urn for one in of_pods.values()} <= set(addon.property_dependencies["configurationValues"])


def test_nodes_without_a_free_interface_are_refused_with_a_layout_as_fix() -> None:
    found = refusals({"network": NETWORK}, {"zones": ["us-east-2a"]})
    assert "no free interface on network card 0 of p5.48xlarge" in found["pools[0].network.layout"]
    assert "write layout: efa-primary" in found["pools[0].network.layout"]
    assert plan_eks({"zones": ["us-east-2a"]}, cluster=CREATED), (
        "without pod subnets, pods use the primary interface"
    )
    assert plan_eks({"zones": ["us-east-2a"], "network": {"rdma": False}}, cluster=cluster({"network": NETWORK}))


def test_secondary_interfaces_have_prefixes_for_all_pods_of_a_node() -> None:
    """EKS caps maxPods at 110, or at 250 for 30 or more vCPUs (EKS user guide, "How maxPods is determined")."""
    known = [one for one in load_catalog().machine_types.values() if one.vendor == "aws" and one.default_enis]
    assert len(known) > 50
    for machine in known:
        assert machine.ips_per_eni is not None
        assert machine.default_enis is not None
        assert machine.default_enis >= 2
        free = machine.default_enis - 1 - (machine.rdma_interfaces > 0)
        most = 110 if machine.vcpu < 30 else 250
        assert free <= 0 or free * (machine.ips_per_eni - 1) * 16 + 2 >= most, machine.name


def test_mistakes_about_subnets_of_pods_are_found_together() -> None:
    assert (
        "no subnet in us-east-2b"
        in (
            refusals({"network": {**NETWORK, "pod_subnets": {"us-east-2a": PODS["us-east-2a"]}}})[
                "cluster.create.network.pod_subnets"
            ]
        )
    )
    wrong = {**PODS, "us-east-2b": SUBNETS["us-east-2b"], "us-east-2c": "subnet-7a1b2c3d4e5f60718"}
    found = refusals({"network": {**NETWORK, "pod_subnets": wrong}})
    assert (
        "a subnet for nodes; another subnet in the same zone"
        in found["cluster.create.network.pod_subnets.us-east-2b"]
    )
    assert "which has no subnet for nodes" in found["cluster.create.network.pod_subnets.us-east-2c"]
    both = refusals({"network": NETWORK, "pods_cidr": "100.64.0.0/16"})
    assert "pods_cidr only for a VPC that the program creates" in both["cluster.create.pods_cidr"]


@pytest.mark.parametrize("cidr", ["172.16.0.0/16", "100.64.0.0/20", "10.0.0.0/16"])
def test_a_secondary_range_that_the_vpc_cannot_have_is_refused(cidr: str) -> None:
    assert "100.64.0.0/10" in refusals({"pods_cidr": cidr})["cluster.create.pods_cidr"]


def test_a_secondary_range_that_is_the_primary_one_is_refused() -> None:
    both = {"cidr": "100.64.0.0/16", "pods_cidr": "100.64.0.0/17"}
    assert "overlaps cidr" in refusals(both)["cluster.create.pods_cidr"]
