"""Rendered EKS resources, compared with the botocore models of the AWS API."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpu_platform.catalog import load_catalog
from gpu_platform.deploy.recorded.record import ResourceRecord
from tests.components.eks.aws_api import Call, NotInTheApi, call, service_model
from tests.components.eks.aws_model import problems
from tests.components.eks.aws_requests import requests_of
from tests.components.eks.pool_forms import FORMS
from tests.planning.clouds.eks.test_capacity_blocks import FIRST, SECOND, several
from tests.support.eks_stacks import CREATED, EXISTING, record_eks
from tests.support.recorded import Recorded

CLUSTERS = {
    "created": CREATED,
    "existing": EXISTING,
    "existing-with-groups": {**EXISTING, "security_groups": ["sg-0a1b2c3d4e5f60718"]},
}


def of_aws(recorded: Recorded) -> list[ResourceRecord]:
    """Return the AWS resources that the program creates, but not those that it only looks up."""
    return [r for r in recorded.resources if r.type.startswith("aws:") and not r.external]


def pool_record(kind: str, form: str = "p5-block") -> ResourceRecord:
    return record_eks(FORMS[form]).one(kind, "train")


def changed(record: ResourceRecord, **inputs: Any) -> ResourceRecord:
    return replace(record, inputs={**record.inputs, **inputs})


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_requests_for_every_form_of_pool_match_the_aws_api_models(cluster: str) -> None:
    pools = [{**form, "name": name} for name, form in FORMS.items()]
    records = of_aws(record_eks(*pools, cluster=CLUSTERS[cluster]))
    for kind in ("NodeGroup", "LaunchTemplate"):
        assert len([r for r in records if r.type.endswith(f":{kind}")]) >= len(pools)
    for record in records:
        for request in requests_of(record):
            assert problems(request) == [], record.urn


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_the_requests_of_a_stack_with_karpenter_pass_it_too(cluster: str) -> None:
    pool: dict[str, Any] = {"machine_type": "g6.4xlarge", "workload": "development", "provisioner": "karpenter"}
    pool["count"] = {"desired": 0, "max": 1}
    records = of_aws(record_eks(pool, cluster=CLUSTERS[cluster]))
    assert {"Queue", "EventRule", "PodIdentityAssociation"} <= {r.type.rsplit(":", 1)[-1] for r in records}
    for record in records:
        for request in requests_of(record):
            assert problems(request) == [], record.urn


def test_the_requests_of_capacity_blocks_with_a_start_pass_it_too() -> None:
    records = of_aws(record_eks({"count": {"desired": 2}, "capacity": several(FIRST, SECOND)}))
    assert {"NodeGroup", "LaunchTemplate", "Schedule"} <= {r.type.rsplit(":", 1)[-1] for r in records}
    requests = [request for record in records for request in requests_of(record)]
    assert [found for request in requests for found in problems(request)] == []
    actions = [one.parameters for one in requests if one.operation == "PutScheduledUpdateGroupAction"]
    assert [action["Recurrence"] for action in actions] == ["32 11 1 12 *", "32 11 14 12 *"]
    assert not any({"MinSize", "MaxSize", "StartTime"} & action.keys() for action in actions)


def test_every_machine_type_of_the_catalogue_is_an_instance_type_of_ec2() -> None:
    known = service_model("ec2").shape_for("InstanceType").metadata["enum"]
    ours = [name for name, machine in load_catalog().machine_types.items() if machine.vendor == "aws"]
    assert ours
    assert [name for name in ours if name not in known] == []


def test_every_node_image_of_the_catalogue_is_an_ami_type_of_eks() -> None:
    known = service_model("eks").shape_for("AMITypes").metadata["enum"]
    images = [image for image in load_catalog().node_images.values() if image.vendor == "aws"]
    ours = [ami_type for image in images for ami_type in image.image_types.values()]
    assert ours
    assert [name for name in ours if name not in known] == []


# The following tests check the comparison with the AWS API itself.
# Without these tests, nobody would notice a comparison that accepts a wrong input.


@pytest.mark.parametrize(
    ("kind", "inputs", "said"),
    [
        ("LaunchTemplate", {"placementGroup": "ml"}, "LaunchTemplateData.placementGroup"),
        ("LaunchTemplate", {"placement": {"groupNam": "ml"}}, "Placement.groupNam"),
        ("LaunchTemplate", {"networkInterfaces": [{"subnet": "subnet-0"}]}, r"NetworkInterfaces\[0\].subnet"),
        ("NodeGroup", {"capacityReservation": "cr-0"}, "CreateNodegroup.capacityReservation"),
        ("NodeGroup", {"updateConfig": {"maxSurge": 1}}, "updateConfig.maxSurge"),
    ],
)
def test_an_input_that_the_api_does_not_have_stops_the_mapping(
    kind: str, inputs: dict[str, Any], said: str
) -> None:
    with pytest.raises(NotInTheApi, match=said):
        requests_of(changed(pool_record(kind), **inputs))


def test_a_resource_without_a_mapping_stops_it() -> None:
    unknown = replace(pool_record("NodeGroup"), type="aws:ec2/fleet:Fleet")
    with pytest.raises(NotInTheApi, match="Fleet"):
        requests_of(unknown)


@pytest.mark.parametrize(
    ("kind", "inputs", "said"),
    [
        ("NodeGroup", {"capacityType": "CAPACITY-BLOCK"}, "capacityType"),
        ("NodeGroup", {"amiType": "AL2023_x86_64_GPU"}, "amiType"),
        ("NodeGroup", {"taints": [{"key": "nvidia.com/gpu", "value": "", "effect": "NoSchedule"}]}, "effect"),
        ("NodeGroup", {"taints": [{"key": "k" * 64, "value": "", "effect": "NO_SCHEDULE"}]}, "key"),
        ("NodeGroup", {"scalingConfig": {"minSize": 0, "maxSize": 0, "desiredSize": 0}}, "maxSize"),
        ("NodeGroup", {"tags": {str(number): "" for number in range(51)}}, "tags"),
        ("LaunchTemplate", {"instanceType": "p5.24xlarge"}, "InstanceType"),
        ("LaunchTemplate", {"instanceMarketOptions": {"marketType": "CAPACITY_BLOCK"}}, "MarketType"),
        ("LaunchTemplate", {"userData": ["not a text"]}, "UserData"),
    ],
)
def test_a_value_that_the_api_refuses_is_a_problem(kind: str, inputs: dict[str, Any], said: str) -> None:
    (request,) = requests_of(changed(pool_record(kind), **inputs))
    assert [found for found in problems(request) if said in found]


def test_a_missing_parameter_is_a_problem() -> None:
    record = pool_record("NodeGroup")
    without_role = {key: value for key, value in record.inputs.items() if key != "nodeRoleArn"}
    (request,) = requests_of(replace(record, inputs=without_role))
    assert "nodeRole" in problems(request)[0]


def test_names_of_the_provider_become_names_of_the_api() -> None:
    request = call("ec2", "CreatePlacementGroup", {"groupName": "ml", "strategy": "cluster"})
    assert request == Call("ec2", "CreatePlacementGroup", {"GroupName": "ml", "Strategy": "cluster"})
