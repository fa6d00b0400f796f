"""Rendered resources for Karpenter and for EFA in pods, on existing and new clusters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from gpu_platform.base import names
from gpu_platform.deploy.recorded.record import ResourceRecord
from tests.components.eks.deploy import deploy
from tests.components.eks.karpenter_shapes import ALWAYS, EC2_NODE_CLASS, NODE_POOL, misfits
from tests.components.eks.moto_cloud import MotoCloud, moto_cloud
from tests.support.eks_stacks import EXISTING, load_eks, record_eks
from tests.support.karpenter_forms import BLOCK, DEVELOP, FORMS, RESERVED, TRAIN
from tests.support.recorded import Recorded


def rendered(form: dict[str, Any]) -> Recorded:
    return record_eks(form, cluster=EXISTING)


def node_class(form: dict[str, Any]) -> ResourceRecord:
    return rendered(form).one("EC2NodeClass", form["name"])


def node_pool(form: dict[str, Any]) -> ResourceRecord:
    (found,) = [one for one in rendered(form).of("NodePool") if one.type.startswith("kubernetes:karpenter.sh/v1:")]
    return found


def release(recorded: Recorded, name: str) -> ResourceRecord:
    return recorded.one("Release", name)


def registered(recorded: Recorded) -> list[tuple[str, str]]:
    return sorted((one.type, one.name) for one in recorded.resources)


# -- 9. EFA in pods -----------------------------------------------------------------------------------------


def with_job(form: dict[str, Any], gpus: int) -> dict[str, Any]:
    """Return the resource requests of a team's pod that runs on the pool."""
    job = {"name": "job", "pool": form["name"], "gpus": gpus}
    return requests_of({"quota": {"gpus": gpus}, "workloads": [job]}, form)


def with_claim(form: dict[str, Any], claim: dict[str, Any], quota: dict[str, int]) -> dict[str, Any]:
    """Return the resource requests of a team's pod with a claim. The pool publishes its GPUs through DRA."""
    team = {
        "quota": {"devices": quota},
        "claims": [{"name": "own", **claim}],
        "workloads": [{"name": "job", "pool": form["name"], "claim": "own"}],
    }
    sharing = {"mode": "dra", "partitions": "profile" in claim}
    operator = {"release": "v26.7.0"}
    cluster = {**EXISTING, "kubernetes": "1.36"}
    return requests_of(team, {**form, "sharing": sharing}, cluster=cluster, operator=operator)


def requests_of(team: dict[str, Any], form: dict[str, Any], **rest: Any) -> dict[str, Any]:
    """Return the resource requests of the pods of `job`, which is the team's only workload."""
    team = {"name": "vision", "priority": "training", "members": ["group:vision"], **team}
    deployment = record_eks(form, teams=[team], **{"cluster": EXISTING, **rest}).one("Deployment", "job")
    (container,) = deployment.inputs["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == container["resources"]["limits"]
    return container["resources"]["requests"]


MANAGED = {**TRAIN, "provisioner": "managed", "count": {"desired": 1}}
OF_THE_GATE = {
    (key, "NoSchedule") for key in (names.STARTUP_TAINT_KEY, names.READINESS_TAINT_KEY, names.FAILED_TAINT_KEY)
}


@pytest.mark.parametrize("form", [MANAGED, TRAIN], ids=["managed", "karpenter"])
def test_eks_9_the_efa_device_plugin_runs_where_nodes_have_efa_interfaces(form: dict[str, Any]) -> None:
    chart = release(
        rendered({**form, "taints": [{"key": "team", "value": "a", "effect": "NoExecute"}]}),
        "aws-efa-k8s-device-plugin",
    ).inputs
    assert chart["version"].startswith("v0.5.")
    assert chart["repositoryOpts"] == {"repo": "https://aws.github.io/eks-charts"}
    assert chart["values"]["supportedInstanceLabels"] == {
        "keys": ["vpc.amazonaws.com/efa.present"],
        "values": ["true"],
    }
    tolerated = {(one["key"], one["effect"]) for one in chart["values"]["tolerations"]}
    assert tolerated == {("nvidia.com/gpu", "NoSchedule"), ("team", "NoExecute"), *OF_THE_GATE}


def test_eks_9_no_efa_device_plugin_where_no_pool_has_efa() -> None:
    assert [one.name for one in rendered(DEVELOP).of("Release") if "efa" in one.name] == []


@pytest.mark.parametrize(
    ("machine_type", "gpus", "interfaces"),
    [("p5.48xlarge", 8, "32"), ("p4d.24xlarge", 8, "4"), ("p5.4xlarge", 1, "1")],
)
def test_eks_9_pods_request_vpc_amazonaws_com_efa_and_hugepages_2mi_5120mi(
    machine_type: str, gpus: int, interfaces: str
) -> None:
    requests = with_job({**MANAGED, "machine_type": machine_type}, gpus)
    assert requests["vpc.amazonaws.com/efa"] == interfaces
    assert requests["hugepages-2Mi"] == "5120Mi"


def test_eks_9_pods_on_a_primary_efa_interface_request_it_as_well() -> None:
    requests = with_job({**MANAGED, "network": {"layout": "efa-primary"}}, 8)
    assert requests["vpc.amazonaws.com/efa"] == "32"


def test_eks_9_pods_on_karpenter_pools_request_efa_but_no_hugepages() -> None:
    requests = with_job(TRAIN, 8)
    assert requests["vpc.amazonaws.com/efa"] == "32"
    assert "hugepages-2Mi" not in requests


@pytest.mark.parametrize(
    ("machine_type", "gpus", "interfaces"), [("p5.48xlarge", 8, "32"), ("p5.4xlarge", 1, "1")]
)
def test_pods_that_claim_all_gpus_of_a_node_request_efa_as_pods_that_count_them(
    machine_type: str, gpus: int, interfaces: str
) -> None:
    requests = with_claim({**MANAGED, "machine_type": machine_type}, {"count": gpus}, {"gpu.nvidia.com": gpus})
    assert set(requests) == {"cpu", "memory", "vpc.amazonaws.com/efa", "hugepages-2Mi"}
    assert requests["vpc.amazonaws.com/efa"] == interfaces


@pytest.mark.parametrize(
    ("claim", "quota"),
    [
        ({"count": 4}, {"gpu.nvidia.com": 4}),
        ({"count": 8, "profile": "7g.80gb"}, {"mig.nvidia.com": 56}),
    ],
)
def test_pods_that_claim_some_gpus_of_a_node_or_instances_request_no_efa(
    claim: dict[str, Any], quota: dict[str, int]
) -> None:
    assert set(with_claim(MANAGED, claim, quota)) == {"cpu", "memory"}


def test_pods_with_part_of_a_node_or_without_efa_request_neither() -> None:
    for requests in (with_job(MANAGED, 4), with_job({**MANAGED, "network": {"rdma": False}}, 8)):
        assert set(requests) == {"cpu", "memory", "nvidia.com/gpu"}


# -- 11. Karpenter ------------------------------------------------------------------------------------------


def test_eks_11_karpenter_ec2nodeclass_placement_group_selector() -> None:
    recorded = rendered(TRAIN)
    group = recorded.one("PlacementGroup", "ml-train")
    assert group.inputs["strategy"] == "cluster"
    found = recorded.one("EC2NodeClass", "train")
    assert found.inputs["spec"]["placementGroupSelector"] == {"name": group.inputs["name"]}
    assert group.urn in found.dependencies


def test_eks_11_the_placement_group_of_a_reservation_is_selected() -> None:
    form = FORMS["training on a reservation with a group"]
    assert not rendered(form).has("PlacementGroup")
    assert node_class(form).inputs["spec"]["placementGroupSelector"] == {"name": "row"}


@pytest.mark.parametrize("capacity", [RESERVED, BLOCK])
def test_eks_11_karpenter_ec2nodeclass_capacity_reservation_selector_terms(capacity: dict[str, Any]) -> None:
    form = {**TRAIN, "zones": None, "capacity": capacity}
    spec = node_class(form).inputs["spec"]
    assert spec["capacityReservationSelectorTerms"] == [{"id": "cr-0a1b2c3d4e5f60718"}]
    wanted = {
        one["key"]: one["values"] for one in node_pool(form).inputs["spec"]["template"]["spec"]["requirements"]
    }
    assert wanted["karpenter.sh/capacity-type"] == ["reserved"]


@pytest.mark.parametrize(
    ("machine_type", "efa"), [("p5.48xlarge", 32), ("p4d.24xlarge", 4), ("p6-b300.48xlarge", 16)]
)
def test_eks_11_karpenter_ec2nodeclass_network_interfaces(machine_type: str, efa: int) -> None:
    found = node_class({**TRAIN, "machine_type": machine_type}).inputs["spec"]["networkInterfaces"]
    assert found[0] == {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}
    assert [one["interfaceType"] for one in found[1:]] == ["efa-only"] * efa
    places = {(one["networkCardIndex"], one["deviceIndex"]) for one in found}
    assert len(places) == 1 + efa


@pytest.mark.parametrize("name", FORMS)
def test_eks_11_karpenter_nodepool_limits_always(name: str) -> None:
    limits = node_pool(FORMS[name]).inputs["spec"]["limits"]
    assert {"nodes", "nvidia.com/gpu"} <= set(limits)


@pytest.mark.parametrize("name", ["training with efa", "training with static memory"])
def test_eks_11_spec_kubelet_has_no_topology_fields_so_user_data_has_them(name: str) -> None:
    spec = node_class(FORMS[name]).inputs["spec"]
    assert "kubelet" not in spec
    for setting in ("topologyManagerPolicy", "topologyManagerScope", "cpuManagerPolicy"):
        assert setting in spec["userData"]
    assert ("reservedMemory" in spec["userData"]) == ("memory" in name)


# -- objects ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMS)
def test_every_field_of_karpenters_objects_is_one_of_its_v1_apis(name: str) -> None:
    for record, shape in ((node_class(FORMS[name]), EC2_NODE_CLASS), (node_pool(FORMS[name]), NODE_POOL)):
        spec = deepcopy(record.inputs["spec"])
        assert ALWAYS[record.inputs["kind"]] <= set(spec)
        if isinstance(spec.get("subnetSelectorTerms"), str):  # the number of subnets in the zones is unknown
            spec["subnetSelectorTerms"] = [{"id": spec["subnetSelectorTerms"]}]
        assert list(misfits(spec, shape)) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("networkInterface",), []),
        (("metadataOptions", "httpToken"), "required"),
        (("blockDeviceMappings", 0, "ebs", "encrypted"), "true"),
        (("amiSelectorTerms", 0, "alias"), "al2023@latest"),
        (("networkInterfaces", 0, "interfaceType"), "efa"),
    ],
)
def test_the_check_of_fields_finds_what_is_misspelt_or_out_of_range(path: tuple[Any, ...], value: Any) -> None:
    spec = deepcopy(dict(node_class(TRAIN).inputs["spec"]))
    place: Any = spec
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert len(list(misfits(spec, EC2_NODE_CLASS))) == 1


def test_nodes_are_in_the_private_subnets_of_their_zones_or_of_all() -> None:
    recorded = record_eks(TRAIN)
    by_urn = {one.urn: one.name for one in recorded.of("Subnet")}
    found = recorded.one("EC2NodeClass", "train")
    assert {by_urn[urn] for urn in found.property_dependencies["spec"] if urn in by_urn} == {
        "ml-private-us-east-2a"
    }
    assert len(found.inputs["spec"]["subnetSelectorTerms"]) == 1
    recorded = record_eks(DEVELOP)
    by_urn = {one.urn: one.name for one in recorded.of("Subnet")}
    found = recorded.one("EC2NodeClass", "develop")
    everywhere = {by_urn[urn] for urn in found.property_dependencies["spec"] if urn in by_urn}
    assert everywhere == {name for name in by_urn.values() if "private" in name}


@pytest.mark.parametrize(("form", "groups"), [(TRAIN, 2), (DEVELOP, 1)], ids=["with EFA", "without"])
def test_nodes_are_in_the_cluster_security_group_and_the_efa_group(form: dict[str, Any], groups: int) -> None:
    recorded = record_eks(form, {**TRAIN, "name": "other"})
    found = recorded.one("EC2NodeClass", form["name"])
    assert len(found.inputs["spec"]["securityGroupSelectorTerms"]) == groups
    efa = recorded.one("SecurityGroup", "ml-efa")
    assert (efa.urn in found.property_dependencies["spec"]) == (groups == 2)


def test_karpenter_nodes_have_a_separate_role_with_an_access_entry() -> None:
    recorded = rendered(DEVELOP)
    role = recorded.one("Role", "ml-karpenter-nodes")
    assert role.urn in recorded.one("EC2NodeClass", "develop").property_dependencies["spec"]
    entry = recorded.of("AccessEntry")[0]
    assert role.urn in entry.property_dependencies["principalArn"]
    assert entry.inputs["type"] == "EC2_LINUX"


def test_a_missing_image_or_reservation_fails_the_deployment() -> None:
    for record in (node_class(DEVELOP), node_pool(DEVELOP)):
        assert record.inputs["metadata"]["annotations"] == {"pulumi.com/waitFor": "condition=Ready"}


@pytest.mark.parametrize("production", [True, False])
def test_pools_of_a_production_cluster_are_protected(production: bool) -> None:
    recorded = record_eks(DEVELOP, cluster={**EXISTING, "production": production})
    assert recorded.one("EC2NodeClass", "develop").protect is production
    pools = [one for one in recorded.of("NodePool") if one.type.startswith("kubernetes:")]
    assert [one.protect for one in pools] == [production]


@pytest.mark.parametrize(("workload", "minutes"), [("development", 60), ("inference", 90), ("training", 750)])
def test_nodes_drain_for_their_grace_period_before_a_deletion_fails(workload: str, minutes: int) -> None:
    pool = {**DEVELOP, "workload": workload}
    for record in (node_class(pool), node_pool(pool)):
        assert record.timeouts["delete"] == f"{minutes}m"


# -- controller ---------------------------------------------------------------------------------------------


def test_karpenter_is_created_before_its_pools_and_deleted_after_them() -> None:
    recorded = rendered(DEVELOP)
    controller, crds = release(recorded, "karpenter"), release(recorded, "karpenter-crd")
    pool = node_pool(DEVELOP)
    assert recorded.one("EC2NodeClass", "develop").urn in pool.dependencies
    assert controller.urn in recorded.one("EC2NodeClass", "develop").dependencies
    assert crds.urn in controller.dependencies


def test_the_controller_starts_with_its_permissions_and_its_queue() -> None:
    recorded = rendered(DEVELOP)
    needed = [
        recorded.one("RolePolicy", "karpenter"),
        recorded.one("PodIdentityAssociation", "karpenter"),
        *recorded.of("Queue"),
        *recorded.of("QueuePolicy"),
        *recorded.of("EventTarget"),
    ]
    assert {one.urn for one in needed} <= set(release(recorded, "karpenter").dependencies)


def test_karpenter_and_its_crds_come_from_pinned_oci_charts() -> None:
    recorded = rendered(DEVELOP)
    charts = {name: release(recorded, name).inputs for name in ("karpenter", "karpenter-crd")}
    for name, inputs in charts.items():
        assert inputs["chart"] == f"oci://public.ecr.aws/karpenter/{name}"
        assert inputs["version"].startswith("1.14.")
    assert charts["karpenter"]["skipCrds"] is True


def test_only_the_controllers_service_account_in_this_cluster_takes_its_role() -> None:
    recorded = rendered(DEVELOP)
    (statement,) = json.loads(recorded.one("Role", "karpenter").inputs["assumeRolePolicy"])["Statement"]
    assert statement["Principal"] == {"Service": "pods.eks.amazonaws.com"}
    assert statement["Condition"]["StringEquals"] == {
        "aws:RequestTag/kubernetes-namespace": "kube-system",
        "aws:RequestTag/kubernetes-service-account": "karpenter",
    }
    assert statement["Condition"]["StringLike"] == {
        "aws:RequestTag/eks-cluster-arn": "arn:aws:eks:us-east-2:*:cluster/ml"
    }
    association = recorded.one("PodIdentityAssociation", "karpenter").inputs
    assert (association["namespace"], association["serviceAccount"]) == ("kube-system", "karpenter")


def test_the_controllers_policy_is_written_of_its_nodes_role_and_its_queue() -> None:
    recorded = rendered(DEVELOP)
    policy = recorded.one("RolePolicy", "karpenter")
    sources = {recorded.one("Role", "ml-karpenter-nodes").urn, recorded.of("Queue")[0].urn}
    assert sources <= set(policy.property_dependencies["policy"])


def test_interruption_events_go_to_the_queue_of_the_controller() -> None:
    recorded = rendered(DEVELOP)
    (queue,) = recorded.of("Queue")
    assert queue.inputs["name"] == "ml-karpenter"
    assert queue.inputs["sqsManagedSseEnabled"] is True
    assert release(recorded, "karpenter").inputs["values"]["settings"]["interruptionQueue"] == "ml-karpenter"
    patterns = [json.loads(one.inputs["eventPattern"]) for one in recorded.of("EventRule")]
    assert {pattern["detail-type"][0] for pattern in patterns} == {
        "AWS Health Event",
        "EC2 Spot Instance Interruption Warning",
        "EC2 Instance Rebalance Recommendation",
        "EC2 Instance State-change Notification",
        "EC2 Capacity Reservation Instance Interruption Warning",
    }
    targets = recorded.of("EventTarget")
    assert len(targets) == len(patterns)
    assert all(queue.urn in one.property_dependencies["arn"] for one in targets)
    (policy,) = recorded.of("QueuePolicy")
    assert {one.urn for one in recorded.of("EventRule")} <= set(policy.property_dependencies["policy"])


def test_a_stack_without_karpenter_pools_has_no_karpenter() -> None:
    recorded = rendered(MANAGED)
    assert [one.urn for one in recorded.resources if "karpenter" in one.urn.lower()] == []


# -- deployment in a moto account, with all outputs known ----------------------------------------------------


DISK_KEY = "arn:aws:kms:us-east-2:123456789012:key/0a1b2c3d"


MOTO = pytest.mark.xdist_group("moto")  # the stack is created once and shared by these tests


@pytest.fixture(scope="module")
def up() -> Iterator[tuple[Recorded, MotoCloud]]:
    """Deploy a stack with both kinds of pools, on a cluster that the program creates."""
    with moto_cloud() as cloud:
        yield deploy(load_eks({**DEVELOP, "disk": {"kms_key": DISK_KEY}}, TRAIN), cloud), cloud


@MOTO
def test_a_preview_with_every_cloud_output_unknown_registers_the_same_resources(
    up: tuple[Recorded, MotoCloud],
) -> None:
    known, _ = up
    assert registered(record_eks(DEVELOP, TRAIN)) == registered(known)
    assert ("kubernetes:karpenter.sh/v1:NodePool", "train") in registered(known)


@MOTO
def test_the_controllers_policy_names_the_role_of_its_nodes_its_queue_and_their_keys(
    up: tuple[Recorded, MotoCloud],
) -> None:
    recorded, cloud = up
    written = cloud.client("iam").get_role_policy(
        RoleName=cloud.ids[recorded.one("Role", "karpenter").urn], PolicyName="karpenter-1a2b3c4"
    )["PolicyDocument"]
    resources = {tuple(one["Action"]): one["Resource"] for one in written["Statement"]}
    role = cloud.client("iam").get_role(RoleName=cloud.ids[recorded.one("Role", "ml-karpenter-nodes").urn])["Role"]
    assert resources[("iam:PassRole",)] == role["Arn"]
    assert resources[("sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage")].endswith(":ml-karpenter")
    assert resources[("kms:CreateGrant",)] == DISK_KEY


def test_karpenters_nodes_carry_the_security_groups_that_the_stack_adds() -> None:
    cluster = {**EXISTING, "security_groups": ["sg-0a1b2c3d4e5f60718"]}
    spec = record_eks(DEVELOP, cluster=cluster).one("EC2NodeClass", "develop").inputs["spec"]
    assert {"id": "sg-0a1b2c3d4e5f60718"} in spec["securityGroupSelectorTerms"]


@MOTO
def test_nodes_get_the_ids_of_existing_resources(up: tuple[Recorded, MotoCloud]) -> None:
    recorded, cloud = up
    spec = recorded.one("EC2NodeClass", "train").inputs["spec"]
    assert spec["role"] == cloud.ids[recorded.one("Role", "ml-karpenter-nodes").urn]
    private = cloud.ids[recorded.one("Subnet", "ml-private-us-east-2a").urn]
    assert spec["subnetSelectorTerms"] == [{"id": private}]
    efa = cloud.ids[recorded.one("SecurityGroup", "ml-efa").urn]
    assert {"id": efa} in spec["securityGroupSelectorTerms"]
    everywhere = recorded.one("EC2NodeClass", "develop").inputs["spec"]["subnetSelectorTerms"]
    private_subnets = [one for one in recorded.of("Subnet") if "private" in one.name]
    assert {one["id"] for one in everywhere} == {cloud.ids[one.urn] for one in private_subnets}


# -- controllers that the cluster already has -----------------------------------------------------------------


def test_an_existing_karpenter_gets_only_pool_objects() -> None:
    present = {**EXISTING, "parts": {"karpenter": "present", "efa_plugin": "present"}}
    recorded = record_eks(DEVELOP, {"zones": ["us-east-2a"]}, cluster=present)
    assert recorded.has("NodePool")
    assert recorded.has("EC2NodeClass")
    assert recorded.has("AccessEntry"), "the access entry of the nodes' role, which the program creates"
    releases = {release.name for release in recorded.of("Release")}
    assert not releases & {"karpenter", "karpenter-crd", "aws-efa-k8s-device-plugin"}
    for kind in ("Queue", "EventRule", "PodIdentityAssociation", "KarpenterController", "EfaDevicePlugin"):
        assert not recorded.has(kind)


def test_nodes_of_an_existing_karpenter_have_a_role_it_may_pass() -> None:
    parts = {"karpenter": "present", "karpenter_node_role": "KarpenterNodeRole-ml"}
    recorded = record_eks(DEVELOP, cluster={**EXISTING, "parts": parts})
    node_class = recorded.one("EC2NodeClass", DEVELOP["name"])
    assert node_class.inputs["spec"]["role"] == "KarpenterNodeRole-ml"
    assert not recorded.has("AccessEntry")
    assert not any("karpenter" in role.name for role in recorded.of("Role"))
