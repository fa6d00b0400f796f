"""The rendered EKS pools, checked against each line of checklist.md in this folder."""

from __future__ import annotations

import base64
import email
from email.message import Message
from typing import Any, cast

import pytest
import yaml

from gpu_platform.deploy.recorded.record import ResourceRecord
from tests.components.eks.pool_forms import AMI, BLOCK, FORMS, RESERVATION, RESERVED, ZONE
from tests.support.eks_stacks import CREATED, EXISTING, plan_eks, record_eks
from tests.support.recorded import Recorded

EFA_FORMS = [name for name in FORMS if name.startswith("p")]
OWN_GROUP = FORMS["p4de-placed"]
TRAINING = FORMS["p5-block"]


def rendered(form: dict[str, Any]) -> Recorded:
    """Record the resources of a pool on an existing cluster."""
    return record_eks(form, cluster=EXISTING)


def template(form: dict[str, Any]) -> dict[str, Any]:
    return dict(rendered(form).one("LaunchTemplate", "train").inputs)


def node_group_record(form: dict[str, Any]) -> ResourceRecord:
    return rendered(form).one("NodeGroup", "train")


def node_group(form: dict[str, Any]) -> dict[str, Any]:
    return dict(node_group_record(form).inputs)


def subnets_of(form: dict[str, Any]) -> list[str]:
    """Return the subnets of the node group on a cluster that the program creates."""
    recorded = record_eks(form)
    record = recorded.one("NodeGroup", "train")
    by_urn = {one.urn: one.name for one in recorded.of("Subnet")}
    found = [by_urn[urn] for urn in record.property_dependencies["subnetIds"] if urn in by_urn]
    assert len(record.inputs["subnetIds"]) == len(found)
    return found


def interfaces(form: dict[str, Any]) -> dict[tuple[int, int], str]:
    """Return the type of each interface, by network card and device."""
    found = template(form)["networkInterfaces"]
    types = {(one["networkCardIndex"], one["deviceIndex"]): one["interfaceType"] for one in found}
    assert len(types) == len(found), "two interfaces have the same card and device index"
    return types


def node_config(form: dict[str, Any]) -> dict[str, Any]:
    """Return the NodeConfig in the user data."""
    message = email.message_from_bytes(base64.b64decode(template(form)["userData"]))
    assert message.get_content_type() == "multipart/mixed"
    (part,) = cast("list[Message]", message.get_payload())
    assert part.get_content_type() == "application/node.eks.aws"
    config = yaml.safe_load(cast("str", part.get_payload()))
    assert config["kind"] == "NodeConfig"
    return config


# 1. EFA


@pytest.mark.parametrize(
    ("machine_type", "cards"),
    [
        ("p4d.24xlarge", 4),
        ("p4de.24xlarge", 4),
        ("p5.48xlarge", 32),
        ("p5e.48xlarge", 32),
        ("p5en.48xlarge", 16),
        ("p6-b200.48xlarge", 8),
    ],
)
@pytest.mark.parametrize("layout", ["ena-and-efa", "efa-primary"])
def test_eks_1_network_interfaces_one_per_network_card_that_carries_efa(
    machine_type: str, cards: int, layout: str
) -> None:
    found = interfaces({"machine_type": machine_type, "capacity": BLOCK, "network": {"layout": layout}})
    with_efa = [card for (card, _), kind in found.items() if kind in ("efa", "efa-only")]
    assert sorted(with_efa) == list(range(cards))


def test_eks_1_layout_ena_and_efa_has_one_interface_and_efa_only_devices() -> None:
    found = interfaces(FORMS["p5-block"])
    assert found.pop((0, 0)) == "interface"
    assert found.pop((0, 1)) == "efa-only"
    assert found == {(card, 1): "efa-only" for card in range(1, 32)}


def test_eks_1_layout_efa_primary_card_0_device_0_efa_others_efa_only() -> None:
    found = interfaces(FORMS["p5-block-efa-primary"])
    assert found.pop((0, 0)) == "efa"
    assert found == {(card, 1): "efa-only" for card in range(1, 32)}


@pytest.mark.parametrize("form", EFA_FORMS)
def test_eks_1_secondary_cards_have_no_plain_efa_interfaces(form: str) -> None:
    found = interfaces(FORMS[form])
    assert not [card for (card, _), kind in found.items() if card > 0 and kind != "efa-only"]


def test_eks_1_pools_without_efa_leave_the_interfaces_to_eks() -> None:
    assert "networkInterfaces" not in template(FORMS["g6e-on-demand"])


# 2. Every interface
# test_eks_on_moto.py checks the ids of the security groups, because moto returns them.


@pytest.mark.parametrize("form", EFA_FORMS)
def test_eks_2_every_interface_has_the_cluster_and_efa_security_groups(form: str) -> None:
    recorded = rendered(FORMS[form])
    record = recorded.one("LaunchTemplate", "train")
    assert [len(one["securityGroups"]) for one in record.inputs["networkInterfaces"]] == [2] * len(
        record.inputs["networkInterfaces"]
    )
    assert recorded.of("SecurityGroup")[0].urn in record.property_dependencies["networkInterfaces"]


@pytest.mark.parametrize("form", EFA_FORMS)
def test_eks_2_every_interface_delete_on_termination_no_public_ip_no_subnet_id(form: str) -> None:
    found = template(FORMS[form])["networkInterfaces"]
    assert found
    for interface in found:
        assert interface["deleteOnTermination"] == "true"
        assert interface["associatePublicIpAddress"] == "false"
        assert "subnetId" not in interface


@pytest.mark.parametrize("form", FORMS)
def test_eks_2_the_templates_own_vpc_security_group_ids_stays_empty(form: str) -> None:
    assert "vpcSecurityGroupIds" not in template(FORMS[form])
    assert "securityGroupNames" not in template(FORMS[form])


# 4. Placement


def test_eks_4_create_a_cluster_placement_group_without_a_reservation() -> None:
    (group,) = rendered(OWN_GROUP).of("PlacementGroup")
    assert group.inputs["strategy"] == "cluster"
    assert template(OWN_GROUP)["placement"] == {"groupName": group.inputs["name"]}
    assert group.urn in node_group_record(OWN_GROUP).dependencies


@pytest.mark.parametrize("capacity", [BLOCK, RESERVED, {**RESERVED, "placement_group": "a100-row"}])
def test_eks_4_create_a_placement_group_only_without_a_reservation(capacity: dict[str, Any]) -> None:
    assert not rendered({**OWN_GROUP, "capacity": capacity}).has("PlacementGroup")


def test_eks_4_with_a_reservation_use_the_reservations_group() -> None:
    assert template(FORMS["p4d-reserved-with-group"])["placement"] == {"groupName": "a100-row"}


@pytest.mark.parametrize("form", ["p4d-reserved", "p5-block"])
def test_eks_4_with_a_reservation_use_its_group_or_none(form: str) -> None:
    assert "placement" not in template(FORMS[form])


@pytest.mark.parametrize("form", EFA_FORMS)
def test_eks_4_one_zone_only(form: str) -> None:
    assert subnets_of(FORMS[form]) == [f"ml-private-{ZONE}"]


# 5. Capacity


def test_eks_5_capacity_block_market_type_target_and_instance_type_in_the_template() -> None:
    found = template(FORMS["p5-block"])
    assert found["instanceMarketOptions"] == {"marketType": "capacity-block"}
    assert found["capacityReservationSpecification"] == {
        "capacityReservationTarget": {"capacityReservationId": RESERVATION}
    }
    assert found["instanceType"] == "p5.48xlarge"


def test_eks_5_capacity_block_node_group_capacity_type_capacity_block() -> None:
    assert node_group(FORMS["p5-block"])["capacityType"] == "CAPACITY_BLOCK"


@pytest.mark.parametrize("form", [name for name in FORMS if name != "g6e-spot-of-four-types"])
def test_eks_5_instance_type_in_the_template_instance_types_unset(form: str) -> None:
    assert "instanceTypes" not in node_group(FORMS[form])
    assert template(FORMS[form])["instanceType"] == FORMS[form]["machine_type"]


def test_several_instance_types_are_set_on_the_node_group_only() -> None:
    form = FORMS["g6e-spot-of-four-types"]
    assert node_group(form)["instanceTypes"] == ["g6e.8xlarge", "g6e.16xlarge", "g6e.4xlarge", "g6e.2xlarge"]
    assert node_group(form)["capacityType"] == "SPOT"
    assert "instanceType" not in template(form)


def test_eks_5_on_demand_capacity_reservation_the_target_only_on_demand() -> None:
    found = template(FORMS["p4d-reserved"])
    assert found["capacityReservationSpecification"] == {
        "capacityReservationTarget": {"capacityReservationId": RESERVED["reservation"]}
    }
    assert "instanceMarketOptions" not in found
    assert node_group(FORMS["p4d-reserved"])["capacityType"] == "ON_DEMAND"


def test_an_on_demand_pool_does_not_use_another_pools_reservation() -> None:
    reserved = {"name": "reserved", "capacity": RESERVED}
    recorded = record_eks(reserved, {"name": "more", "zones": [ZONE]}, cluster=EXISTING)
    more = recorded.one("LaunchTemplate", "more").inputs["capacityReservationSpecification"]
    assert more == {"capacityReservationPreference": "none"}
    of_reserved = recorded.one("LaunchTemplate", "reserved").inputs["capacityReservationSpecification"]
    assert of_reserved == {"capacityReservationTarget": {"capacityReservationId": RESERVED["reservation"]}}


@pytest.mark.parametrize(
    ("system", "expected"),
    [("m7i.xlarge", {"capacityReservationPreference": "none"}), ("m7a.xlarge", None)],
    ids=["the reserved machine type", "another machine type"],
)
def test_system_nodes_do_not_use_a_pools_open_reservation(system: str, expected: dict[str, str] | None) -> None:
    reserved = {"name": "cpu", "machine_type": "m7i.xlarge", "workload": "general", "capacity": RESERVED}
    cluster = {**CREATED, "create": {**CREATED["create"], "system": {"machine_types": [system]}}}
    recorded = record_eks(reserved, cluster=cluster)
    assert recorded.one("LaunchTemplate", "ml-system").inputs.get("capacityReservationSpecification") == expected
    [decision] = [one for one in plan_eks(reserved, cluster=cluster).decisions if one.what == "system nodes"]
    assert ("outside open reservations" in decision.why) is (expected is not None)


def test_eks_5_spot_spot_never_with_a_reservation() -> None:
    found = template(FORMS["g5-spot"])
    assert node_group(FORMS["g5-spot"])["capacityType"] == "SPOT"
    assert "capacityReservationSpecification" not in found
    assert "instanceMarketOptions" not in found, "EKS refuses market options in a template"


def test_eks_5_the_desired_size_of_a_block_pool_is_not_reset() -> None:
    assert "scalingConfig.desiredSize" in node_group_record(FORMS["p5-block"]).ignore_changes


# 6. Disks and metadata


@pytest.mark.parametrize(("form", "device"), [("g6e-on-demand", "/dev/xvda"), ("g4dn-bottlerocket", "/dev/xvdb")])
def test_eks_6_disk_in_the_template_xvda_al2023_xvdb_bottlerocket(form: str, device: str) -> None:
    disks = {one["deviceName"]: one["ebs"] for one in template(FORMS[form])["blockDeviceMappings"]}
    assert disks[device]["volumeSize"] == 200


@pytest.mark.parametrize("form", FORMS)
def test_eks_6_disk_size_unset_on_the_node_group(form: str) -> None:
    assert "diskSize" not in node_group(FORMS[form])


@pytest.mark.parametrize("form", FORMS)
def test_eks_6_imdsv2_required_hop_limit_2_or_less(form: str) -> None:
    options = template(FORMS[form])["metadataOptions"]
    assert options["httpTokens"] == "required"
    assert 1 <= options["httpPutResponseHopLimit"] <= 2


@pytest.mark.parametrize("form", FORMS)
def test_eks_6_encrypted_gp3(form: str) -> None:
    disks = template(FORMS[form])["blockDeviceMappings"]
    assert disks
    for disk in disks:
        assert disk["ebs"]["encrypted"] == "true"
        assert disk["ebs"]["volumeType"] == "gp3"


def test_eks_6_encrypted_with_a_key_of_ones_own() -> None:
    keys = [one["ebs"].get("kmsKeyId") for one in template(FORMS["g6-own-key"])["blockDeviceMappings"]]
    assert keys == [FORMS["g6-own-key"]["disk"]["kms_key"]]


# 7. User data


def test_eks_7_user_data_mime_node_config_local_storage_strategy_raid0() -> None:
    config = node_config(TRAINING)
    assert config["apiVersion"] == "node.eks.aws/v1alpha1"
    assert config["spec"]["instance"]["localStorage"]["strategy"] == "RAID0"


def test_eks_7_kubelet_config_has_topology_policy_scope_and_static_cpus() -> None:
    kubelet = node_config(TRAINING)["spec"]["kubelet"]["config"]
    assert kubelet["topologyManagerPolicy"] == "restricted"
    assert kubelet["topologyManagerScope"] == "container"
    assert kubelet["cpuManagerPolicy"] == "static"


def test_eks_7_static_memory_always_comes_with_reserved_memory() -> None:
    kubelet = node_config(FORMS["p5-static-memory"])["spec"]["kubelet"]["config"]
    assert kubelet["memoryManagerPolicy"] == "Static"
    assert [one["numaNode"] for one in kubelet["reservedMemory"]] == [0]
    assert kubelet["reservedMemory"][0]["limits"]["memory"]


def test_eks_7_no_reserved_memory_without_static_memory() -> None:
    kubelet = node_config(TRAINING)["spec"]["kubelet"]["config"]
    assert "memoryManagerPolicy" not in kubelet
    assert "reservedMemory" not in kubelet


def test_eks_7_bottlerocket_has_a_topology_policy_and_static_cpus() -> None:
    form = {"machine_type": "g4dn.12xlarge", "image": {"family": "bottlerocket"}}
    text = base64.b64decode(template(form)["userData"]).decode()
    assert 'topology-manager-policy = "restricted"' in text
    assert 'cpu-manager-policy = "static"' in text


# 8. Node group


@pytest.mark.parametrize(
    ("form", "ami_type"),
    [
        ("g6e-on-demand", "AL2023_x86_64_NVIDIA"),
        ("g5g-arm", "AL2023_ARM_64_NVIDIA"),
        ("g4dn-bottlerocket", "BOTTLEROCKET_x86_64_NVIDIA"),
    ],
)
def test_eks_8_ami_type(form: str, ami_type: str) -> None:
    assert node_group(FORMS[form])["amiType"] == ami_type
    assert "imageId" not in template(FORMS[form])


def test_eks_8_the_ami_type_of_a_custom_image_is_set_explicitly() -> None:
    assert node_group(FORMS["own-image"])["amiType"] == "CUSTOM"
    assert template(FORMS["own-image"])["imageId"] == AMI


def test_eks_8_one_subnet_in_the_offerings_zone() -> None:
    assert subnets_of({**FORMS["p5-block"], "capacity": {**BLOCK, "zone": "us-east-2b"}}) == [
        "ml-private-us-east-2b"
    ]


@pytest.mark.parametrize("form", FORMS)
def test_eks_8_scaling_config_with_drift_on_desired_ignored_where_others_set_it(form: str) -> None:
    record = node_group_record(FORMS[form])
    count = FORMS[form].get("count", {"desired": 1})
    fixed = "max" not in count and "reservation" not in FORMS[form].get("capacity", {})
    assert record.inputs["scalingConfig"] == {
        "minSize": count["desired"] if fixed else count.get("min", 0),
        "desiredSize": count["desired"],
        "maxSize": count.get("max", count["desired"]),
    }
    others_set_it = count.get("max", count["desired"]) > count["desired"] or (
        FORMS[form].get("capacity", {}).get("type") == "capacity-block"
    )
    assert ("scalingConfig.desiredSize" in record.ignore_changes) is others_set_it


@pytest.mark.parametrize(
    ("form", "strategy"), [("p5-block", "MINIMAL"), ("p4d-reserved", "MINIMAL"), ("g6e-on-demand", "DEFAULT")]
)
def test_eks_8_update_config(form: str, strategy: str) -> None:
    assert node_group(FORMS[form])["updateConfig"] == {"maxUnavailable": 1, "updateStrategy": strategy}


def test_eks_8_node_repair_config() -> None:
    assert node_group(FORMS["g6e-on-demand"])["nodeRepairConfig"] == {"enabled": True}
    off = {**FORMS["g6e-on-demand"], "repair": False}
    assert node_group(off)["nodeRepairConfig"] == {"enabled": False}


@pytest.mark.parametrize("form", FORMS)
def test_eks_8_labels_gpu_present_and_efa_present(form: str) -> None:
    labels = node_group(FORMS[form])["labels"]
    assert labels["nvidia.com/gpu.present"] == "true"
    assert (labels.get("vpc.amazonaws.com/efa.present") == "true") == (form in EFA_FORMS)


@pytest.mark.parametrize("form", FORMS)
def test_eks_8_taint_nvidia_com_gpu_no_schedule(form: str) -> None:
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}
    assert taint in node_group(FORMS[form])["taints"]
