"""Rules about the network between GPU nodes on AWS: EFA, placement groups and reservations."""

from __future__ import annotations

from typing import Any

import pytest
from policy_records import (
    UNKNOWN,
    Record,
    container,
    eks_node_group,
    job,
    launch_template,
    node,
    not_checked,
    only,
    pod_spec,
    record,
    violations,
)

EFA = "vpc.amazonaws.com/efa"
AGENT_POOL = "azure:containerservice/kubernetesClusterNodePool:KubernetesClusterNodePool"
GROUP = "aws:ec2/placementGroup:PlacementGroup"
SECURITY_GROUP = "aws:ec2/securityGroup:SecurityGroup"
INTERFACES = [{"deviceIndex": 0, "interfaceType": "interface"}, {"deviceIndex": 1, "interfaceType": "efa-only"}]


def urn(type_: str, name: str) -> str:
    return f"urn:pulumi:prod::ml::{type_}::{name}"


# -- efa-requested ----------------------------------------------------------------------------------------

POOL = eks_node_group(
    labels={
        "gpu-platform.dev/pool": "train",
        "gpu-platform.dev/workload": "training",
        f"{EFA}.present": "true",
    },
    instanceTypes=["p5.48xlarge"],
)


def gang(limits: Record, pods: Any = 4) -> Record:
    return job(pod_spec(container(limits), nodeSelector={"gpu-platform.dev/pool": "train"}), parallelism=pods)


def test_a_gang_on_whole_efa_nodes_that_requests_no_efa_is_found():
    assert "4 pods" in only(violations("efa-requested", POOL, gang({"nvidia.com/gpu": 8}))).problem.found


def test_a_gang_with_efa_a_single_pod_and_partial_nodes_pass():
    assert violations("efa-requested", POOL, gang({"nvidia.com/gpu": 8, EFA: 32})) == []
    assert violations("efa-requested", POOL, gang({"nvidia.com/gpu": 8}, pods=1)) == []
    assert violations("efa-requested", POOL, gang({"nvidia.com/gpu": 4})) == []


def test_a_machine_type_without_efa_needs_no_request_whatever_its_label_says():
    labelled = node(machine_type="g4dn.xlarge", labels={f"{EFA}.present": "true"})
    assert violations("efa-requested", labelled, gang({"nvidia.com/gpu": 1})) == []


def test_nodes_without_efa_need_no_request():
    assert violations("efa-requested", node(), gang({"nvidia.com/gpu": 8})) == []
    assert "parallelism" in not_checked("efa-requested", POOL, gang({"nvidia.com/gpu": 8}, pods=UNKNOWN))


# -- infiniband-requested ---------------------------------------------------------------------------------


def agent_pool(vm_size: str = "Standard_ND96isr_H100_v5", **labels: str) -> Record:
    inputs = {
        "name": "train",
        "vmSize": vm_size,
        "nodeCount": 4,
        "gpuDriver": "None",
        "nodeLabels": {"gpu-platform.dev/pool": "train", "gpu-platform.dev/workload": "training", **labels},
        "nodeTaints": ["nvidia.com/gpu=present:NoSchedule"],
    }
    return record(AGENT_POOL, "train", inputs)


def test_a_gang_on_whole_nodes_with_infiniband_that_requests_no_nics_is_found():
    pool = agent_pool(**{"gpu-platform.dev/infiniband": "true"})
    assert (
        "without rdma/ib"
        in only(violations("infiniband-requested", pool, gang({"nvidia.com/gpu": 8}))).problem.found
    )
    assert violations("infiniband-requested", pool, gang({"nvidia.com/gpu": 8, "rdma/ib": 8})) == []
    assert violations("infiniband-requested", pool, gang({"nvidia.com/gpu": 4})) == []


def test_a_pool_without_infiniband_needs_no_request():
    assert violations("infiniband-requested", agent_pool(), gang({"nvidia.com/gpu": 8})) == []
    assert violations("infiniband-requested", POOL, gang({"nvidia.com/gpu": 8})) == []


# -- efa-security-group -----------------------------------------------------------------------------------


def template(*after: str, **inputs: Any) -> Record:
    return {**launch_template(networkInterfaces=INTERFACES, **inputs), "dependencies": list(after)}


def security_group(**inputs: Any) -> Record:
    return record(SECURITY_GROUP, "efa", inputs)


def rule(direction: str, **inputs: Any) -> Record:
    kind = f"aws:vpc/securityGroup{direction}Rule:SecurityGroup{direction}Rule"
    defaults = {"ipProtocol": "-1", "referencedSecurityGroupId": UNKNOWN, "securityGroupId": UNKNOWN}
    return record(kind, direction.casefold(), {**defaults, **inputs}, (urn(SECURITY_GROUP, "efa"),))


def older_rule(direction: str, **inputs: Any) -> Record:
    defaults = {"type": direction, "self": True, "protocol": "-1", "securityGroupId": UNKNOWN}
    kind = "aws:ec2/securityGroupRule:SecurityGroupRule"
    return record(kind, direction, {**defaults, **inputs}, (urn(SECURITY_GROUP, "efa"),))


ITSELF = [{"protocol": "-1", "self": True}]


@pytest.mark.parametrize(
    "records",
    [
        (security_group(ingress=ITSELF, egress=ITSELF),),
        (security_group(), rule("Ingress"), rule("Egress")),
        (security_group(ingress=[{"protocol": -1, "self": True}]), rule("Egress")),
        (security_group(egress=ITSELF), rule("Ingress", ipProtocol="tcp"), rule("Ingress")),
        (security_group(), older_rule("ingress"), older_rule("egress")),
        (security_group(egress=ITSELF), older_rule("ingress", protocol="tcp"), older_rule("ingress")),
    ],
)
def test_a_group_that_allows_all_traffic_with_itself_passes(records: tuple[Record, ...]):
    assert violations("efa-security-group", *records, template(urn(SECURITY_GROUP, "efa"))) == []


@pytest.mark.parametrize(
    ("records", "missing"),
    [
        ((security_group(ingress=ITSELF),), "egress"),
        ((security_group(egress=ITSELF),), "ingress"),
        ((security_group(egress=ITSELF, ingress=[{"protocol": "tcp", "self": True}]),), "ingress"),
        ((security_group(egress=ITSELF), rule("Ingress", ipProtocol="tcp")), "ingress"),
        ((security_group(egress=ITSELF), older_rule("ingress", protocol="tcp")), "ingress"),
        ((security_group(egress=ITSELF), older_rule("ingress", self=False)), "ingress"),
        ((security_group(egress=ITSELF), older_rule("egress")), "ingress"),
        (
            (security_group(egress=ITSELF), rule("Ingress", referencedSecurityGroupId=None, cidrIpv4="0.0.0.0/0")),
            "ingress",
        ),
    ],
)
def test_a_group_that_blocks_efa_is_found(records: tuple[Record, ...], missing: str):
    found = only(violations("efa-security-group", *records, template(urn(SECURITY_GROUP, "efa"))))
    assert f"all {missing}" in found.problem.found


def test_a_rule_between_two_groups_is_not_a_rule_of_one_with_itself():
    other = record(SECURITY_GROUP, "other", {})
    between = rule("Ingress")
    between["dependencies"].append(urn(SECURITY_GROUP, "other"))
    stack = [security_group(egress=ITSELF), other, between, template(urn(SECURITY_GROUP, "efa"))]
    assert only(violations("efa-security-group", *stack))


def test_existing_groups_are_not_checked_and_plain_interfaces_need_none():
    assert "not in this stack" in not_checked("efa-security-group", template())
    assert violations("efa-security-group", launch_template(networkInterfaces=INTERFACES[:1])) == []


# -- placement-group-zone and reservation-placement --------------------------------------------------------

TEMPLATE_URN = urn("aws:ec2/launchTemplate:LaunchTemplate", "train")
PLACED = {"placement": {"groupName": "train"}}
RESERVED = {"capacityReservationSpecification": {"capacityReservationTarget": {"capacityReservationId": "cr-1"}}}


def placement_group(strategy: str = "cluster") -> Record:
    return record(GROUP, "train", {"strategy": strategy})


def placed(*after: str, **inputs: Any) -> Record:
    return {**launch_template(**inputs), "dependencies": list(after)}


def test_a_cluster_placement_group_over_two_subnets_is_found():
    stack = [placement_group(), placed(urn(GROUP, "train"), **PLACED)]
    assert (
        "2 subnets"
        in only(violations("placement-group-zone", *stack, eks_node_group(subnetIds=["a", "b"]))).problem.found
    )
    assert violations("placement-group-zone", *stack, eks_node_group(subnetIds=["a"])) == []


def test_other_strategies_and_nodes_without_a_group_may_span_zones():
    spread = [
        placement_group("spread"),
        placed(urn(GROUP, "train"), **PLACED),
        eks_node_group(subnetIds=["a", "b"]),
    ]
    assert violations("placement-group-zone", *spread) == []
    assert violations("placement-group-zone", placed(), eks_node_group(subnetIds=["a", "b"])) == []


def test_subnets_that_are_not_known_are_counted_by_dependencies():
    subnets = [record("aws:ec2/subnet:Subnet", name, {}) for name in ("a", "b")]
    group = eks_node_group(subnetIds=UNKNOWN)
    stack = [placement_group(), placed(urn(GROUP, "train"), **PLACED)]
    assert "subnetIds" in not_checked("placement-group-zone", *stack, group)
    group["dependencies"] = [TEMPLATE_URN, *(one["urn"] for one in subnets)]
    assert only(violations("placement-group-zone", *stack, *subnets, group))


def test_a_new_placement_group_on_a_reservation_is_found_and_its_own_passes():
    new = [placement_group(), placed(urn(GROUP, "train"), **PLACED, **RESERVED), eks_node_group()]
    assert only(violations("reservation-placement", *new))
    assert violations("reservation-placement", placed(**PLACED, **RESERVED), eks_node_group()) == []
    assert (
        violations(
            "reservation-placement", placement_group(), placed(urn(GROUP, "train"), **PLACED), eks_node_group()
        )
        == []
    )


def test_a_template_of_another_stack_is_not_checked():
    group = eks_node_group(launchTemplate={"id": "lt-1"})
    assert "not a resource of this stack" in not_checked("reservation-placement", group)
