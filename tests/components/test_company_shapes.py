"""A stack of every shape can be planned, satisfies the rules, and renders with every output unknown."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest

from gpu_platform.deploy.recorded.record import ResourceRecord
from policies import evaluate
from tests.components.company_shapes import (
    BLOCKS,
    BOUNDARY,
    COMPANY_LABELS,
    COMPANY_TAGS,
    CONTROL_PLANE_SUBNETS,
    FOUR_TYPES,
    SHAPES,
    SUBNETS,
    shape,
)
from tests.components.eks.aws_model import problems
from tests.components.eks.aws_requests import requests_of
from tests.components.gke.gke_api import node_pool
from tests.components.gke.gke_cluster_api import cluster
from tests.support.recorded import Recorded, record_platform

pytestmark = pytest.mark.xdist_group("shapes")  # one pytest-xdist worker records each shape only once

TODAY = datetime.date(2026, 11, 25)
EVERY = pytest.mark.parametrize("name", SHAPES)
UNKNOWN = "'unknown' does not match"
"""The error that the comparison with the AWS API model reports for an id that is still unknown in a preview."""


def rendered(name: str) -> Recorded:
    """Return the resources that the program registers for one of `SHAPES` if every cloud output is unknown."""
    return record_platform(shape(name))


def of_cloud(name: str, cloud: str) -> list[ResourceRecord]:
    return [one for one in rendered(name).resources if one.type.startswith(f"{cloud}:") and not one.external]


@EVERY
def test_every_shape_has_all_its_pools_and_teams_in_a_preview_that_knows_no_output(name: str) -> None:
    recorded, platform = rendered(name), shape(name)
    assert {team["name"] for team in platform["teams"]} <= {one.name for one in recorded.of("Namespace")}
    names = {one.name for one in recorded.resources}
    for pool in platform["pools"]:
        assert any(pool["name"] == one or one.startswith(f"{pool['name']}-") for one in names), pool["name"]


@EVERY
def test_every_shape_keeps_every_rule_of_the_policy_pack(name: str) -> None:
    records = [one.to_json() for one in rendered(name).resources]
    assert evaluate(records, {"all": "mandatory"}, TODAY).violations == ()


@EVERY
def test_every_request_of_a_shape_matches_the_cloud_api(name: str) -> None:
    checked = 0
    for record in of_cloud(name, "aws"):
        for request in requests_of(record):
            assert [one for one in problems(request) if UNKNOWN not in one] == [], record.urn
            checked += 1
    for record in of_cloud(name, "gcp"):
        if record.type == "gcp:container/nodePool:NodePool":
            assert node_pool(record.inputs).config.machine_type
            checked += 1
        if record.type == "gcp:container/cluster:Cluster":
            assert cluster(record.inputs).name == "ml" or record.inputs["name"]
            checked += 1
    assert (checked == 0) == (name == "existing-cluster-of-operators")


@EVERY
def test_no_shape_has_a_policy_that_allows_everything_on_everything(name: str) -> None:
    for record in of_cloud(name, "aws"):
        if record.type not in {"aws:iam/rolePolicy:RolePolicy", "aws:iam/policy:Policy"}:
            continue
        text = record.inputs["policy"]
        if not isinstance(text, str) or not text.startswith("{"):
            continue  # the value is a reference to an output
        for statement in json.loads(text)["Statement"]:
            assert statement["Action"] != "*", record.urn


def test_a_cluster_in_an_existing_vpc_gets_its_owners_subnets_and_creates_no_network() -> None:
    recorded = rendered("existing-vpc")
    kinds = {one.type for one in of_cloud("existing-vpc", "aws")}
    assert not {kind for kind in kinds if kind.startswith("aws:ec2/") and ("ubnet" in kind or "vpc:" in kind)}
    [eks] = recorded.of("Cluster")
    assert set(eks.inputs["vpcConfig"]["subnetIds"]) == set(CONTROL_PLANE_SUBNETS)
    assert recorded.one("NodeGroup", "train").inputs["subnetIds"] == [SUBNETS["us-east-2a"]]


def test_a_shared_vpc_cluster_uses_the_host_projects_subnets() -> None:
    recorded = rendered("shared-vpc")
    [created] = [one for one in recorded.of("Cluster") if one.type.startswith("gcp:")]
    assert created.inputs["network"] == "projects/net-host-4711/global/networks/shared"
    assert created.inputs["subnetwork"].startswith("projects/net-host-4711/regions/us-central1/")
    kinds = {one.type for one in of_cloud("shared-vpc", "gcp")}
    assert "gcp:serviceaccount/account:Account" not in kinds
    for pool in (one for one in recorded.of("NodePool") if one.type.startswith("gcp:")):
        assert pool.inputs["nodeConfig"]["serviceAccount"].startswith("gpu-nodes@"), pool.name
        assert COMPANY_LABELS.items() <= pool.inputs["nodeConfig"]["resourceLabels"].items(), pool.name


@pytest.mark.parametrize("name", ["existing-eks-of-operators", "existing-cluster-of-operators"])
def test_existing_controllers_are_not_installed_again(name: str) -> None:
    charts = {one.inputs["chart"].rsplit("/", 1)[-1] for one in rendered(name).resources if "chart" in one.inputs}
    expected = {"gpu-operator"} if name == "existing-cluster-of-operators" else set[str]()
    assert charts == expected
    if expected:
        values = rendered(name).one("Release", "gpu-operator").inputs["values"]
        assert values["nfd"]["enabled"] is False
        assert values["dcgmExporter"]["enabled"] is False


def test_each_block_of_a_handover_has_a_node_group_and_a_start() -> None:
    recorded = rendered("block-hand-over")
    groups = [one for one in recorded.of("NodeGroup") if one.inputs.get("capacityType") == "CAPACITY_BLOCK"]
    assert len(groups) == len(BLOCKS)
    assert {one.inputs["scalingConfig"]["desiredSize"] for one in groups} == {0}
    assert [one.inputs["desiredCapacity"] for one in recorded.of("Schedule")] == [4, 4]


@pytest.mark.parametrize(("name", "driver"), [("gb200-rack-on-eks", "aws"), ("gb200-rack-on-gke", "gcp")])
def test_a_rack_is_one_pool_of_one_nvlink_domain_with_a_compute_domain_of_its_team(name: str, driver: str) -> None:
    recorded = rendered(name)
    kind = {"aws": "NodeGroup", "gcp": "NodePool"}[driver]
    racks = [one for one in recorded.of(kind) if one.name == "rack" and one.type.startswith(driver)]
    assert len(racks) == 1
    [domain] = recorded.of("ComputeDomain")
    assert domain.inputs["metadata"]["namespace"] == "vision"
    policies = [one for one in recorded.resources if one.type == "gcp:compute/resourcePolicy:ResourcePolicy"]
    assert len(policies) == (1 if driver == "gcp" else 0)


def test_spot_with_four_types_asks_for_all_of_them_by_both_provisioners() -> None:
    recorded = rendered("spot-with-four-types")
    group = recorded.one("NodeGroup", "serve").inputs
    assert (group["capacityType"], group["instanceTypes"]) == ("SPOT", FOUR_TYPES)
    [karpenter] = [one for one in recorded.of("NodePool") if one.type.startswith("kubernetes:karpenter")]
    requirements = {
        one["key"]: one["values"] for one in karpenter.inputs["spec"]["template"]["spec"]["requirements"]
    }
    assert set(requirements["node.kubernetes.io/instance-type"]) == set(FOUR_TYPES)
    assert requirements["karpenter.sh/capacity-type"] == ["spot"]


@pytest.mark.parametrize("name", ["monitoring-on-cpu-pools-of-eks", "monitoring-on-cpu-pools-of-gke"])
def test_the_monitoring_stack_runs_services_on_nodes_without_gpus(name: str) -> None:
    cpu = {pool["name"] for pool in shape(name)["pools"]} - {"serve"}
    assert {"monitoring", "ingress"} <= cpu
    agents = [one.name for one in rendered(name).of("DaemonSet") if one.name.startswith("validate-")]
    assert agents == ["validate-serve"]


def test_a_private_cluster_has_the_companys_tags_and_boundary_everywhere() -> None:
    name = "private-cluster-of-a-company"
    recorded = rendered(name)
    [eks] = recorded.of("Cluster")
    assert eks.inputs["vpcConfig"]["endpointPublicAccess"] is False
    assert eks.inputs["vpcConfig"]["endpointPrivateAccess"] is True
    [provider] = [one for one in recorded.resources if one.type == "pulumi:providers:aws"]
    default: Any = provider.inputs["defaultTags"]
    tags = (json.loads(default) if isinstance(default, str) else default)["tags"]
    assert COMPANY_TAGS.items() <= tags.items()
    for template in recorded.of("LaunchTemplate"):
        kinds = {one["resourceType"] for one in template.inputs["tagSpecifications"]}
        assert kinds == {"instance", "volume", "network-interface"}, template.name
        for one in template.inputs["tagSpecifications"]:
            assert COMPANY_TAGS.items() <= one["tags"].items(), template.name
    roles = [one for one in of_cloud(name, "aws") if one.type == "aws:iam/role:Role"]
    assert len(roles) >= 5
    for role in roles:
        assert (role.inputs["path"], role.inputs["permissionsBoundary"]) == ("/gpu/", BOUNDARY), role.name
    classes = recorded.of("StorageClass")
    assert {one.name for one in classes} >= {"scratch", "home"}
