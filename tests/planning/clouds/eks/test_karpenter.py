"""The plan of a pool whose nodes Karpenter creates, and the settings that are refused for such a pool."""

from __future__ import annotations

import dataclasses
import email
import json
import tomllib
from collections.abc import Mapping
from email.message import Message
from typing import Any, cast

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from gpu_platform.base.quantity import parse_duration
from gpu_platform.catalog import load_catalog
from gpu_platform.planning.clouds.eks.alternatives import check_alternatives
from gpu_platform.planning.clouds.eks.disruption import DISRUPTION
from gpu_platform.planning.clouds.eks.karpenter import check_karpenter_pool
from gpu_platform.planning.clouds.eks.karpenter_controller import (
    controller_policy,
    karpenter_controller,
    queue_policy,
)
from gpu_platform.planning.clouds.eks.limits import KARPENTER_LONGEST_GRACE
from gpu_platform.planning.clouds.eks.plan import KarpenterPoolPlan
from gpu_platform.planning.problems import Problems
from tests.planning.clouds.eks.eks_pools import AMI, BLOCK, RESERVATION, eks, plan_and_decisions, pool, problems_of

ZONE = "us-east-2a"
TIME_SLICING = {"mode": "time-slicing", "replicas": 4}
NODE_ROLE = "arn:aws:iam::123456789012:role/ml-karpenter-nodes"
QUEUE = "arn:aws:sqs:us-east-2:123456789012:ml-karpenter"


def said(**rest: Any) -> dict[str, Any]:
    """Return a development pool with Karpenter nodes. `rest` overrides fields."""
    return {
        "name": "develop",
        "machine_type": "g6.4xlarge",
        "count": {"desired": 0, "max": 8},
        "workload": "development",
        "provisioner": "karpenter",
        **rest,
    }


def training(**rest: Any) -> dict[str, Any]:
    """Return a training pool with Karpenter nodes and EFA in one zone. `rest` overrides fields."""
    return said(machine_type="p5.48xlarge", workload="training", zones=[ZONE], **rest)


def plan(form: Mapping[str, Any]) -> KarpenterPoolPlan:
    cloud = plan_and_decisions(None, **form)[0].cloud
    assert isinstance(cloud, KarpenterPoolPlan)
    return cloud


def requirement(form: Mapping[str, Any], key: str) -> list[str]:
    found = {one["key"]: one for one in plan(form).node_pool["template"]["spec"]["requirements"]}
    assert {one["operator"] for one in found.values()} == {"In"}
    return found[key]["values"]


def settings(form: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings in the nodes' user data, as nodeadm or Bottlerocket reads them."""
    text = plan(form).node_class["userData"]
    if plan(form).node_class["amiFamily"] == "Bottlerocket":
        return tomllib.loads(text)["settings"]
    (part,) = cast("list[Message]", email.message_from_string(text).get_payload())
    assert part.get_content_type() == "application/node.eks.aws"
    return yaml.safe_load(cast("str", part.get_payload()))["spec"]


# -- the plan of a pool -------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [said(), training(), said(capacity={"type": "spot"}), said(capacity=RESERVATION)])
def test_there_are_always_limits_on_nodes_and_gpus(form: dict[str, Any]):
    limits = plan(form).node_pool["limits"]
    assert limits["nodes"] == "8"
    gpus = load_catalog().machine_types[form["machine_type"]].gpu_count
    assert limits["nvidia.com/gpu"] == str(8 * gpus)


def test_pods_are_planned_with_the_memory_that_karpenter_expects_of_a_node():
    planned, _ = plan_and_decisions(None, **said())
    assert planned.memory_mib == 57_691  # 65,536 MiB minus 7.5 %, minus (255 + 11 x 234) MiB, minus 100 MiB


def test_a_deletion_waits_longer_than_the_longest_grace_period_of_a_node():
    graces = [parse_duration(one.termination_grace) for one in DISRUPTION.values()]
    assert max(graces) == KARPENTER_LONGEST_GRACE
    for workload in DISRUPTION:
        form = said(workload=workload, **({"machine_type": "m7i.4xlarge"} if workload == "general" else {}))
        grace = parse_duration(plan(form).node_pool["template"]["spec"]["terminationGracePeriod"])
        deletion = plan_and_decisions(None, **form)[0].cloud_nodes.timeouts.delete
        assert deletion is not None
        assert deletion > grace


def test_spot_nodes_need_the_role_of_ec2_spot_in_the_account():
    (need,) = plan_and_decisions(None, **said(capacity={"type": "spot"}))[0].cloud_nodes.account_needs
    assert "AWSServiceRoleForEC2Spot" in need.name
    assert "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com" in need.fix
    assert plan_and_decisions(None, **said())[0].cloud_nodes.account_needs == ()


def test_limits_on_cpu_and_memory_are_those_that_the_stack_says():
    limits = plan(said(karpenter={"limits": {"cpu": "128", "memory": "512Gi"}})).node_pool["limits"]
    assert limits == {"nodes": "8", "nvidia.com/gpu": "8", "cpu": "128", "memory": "512Gi"}


def test_a_pool_with_shares_is_limited_by_cpu():
    form = said(sharing={**TIME_SLICING, "rename": False})
    assert plan(form).node_pool["limits"] == {"nodes": "8", "nvidia.com/gpu": "32", "cpu": "128"}
    larger = {**form, "karpenter": {"alternatives": ["g6.8xlarge"]}}
    assert plan(larger).node_pool["limits"]["cpu"] == "128"


def created_in_one_pass(limits: dict[str, str], capacities: list[dict[str, int]], running: int) -> int:
    """Return how many nodes Karpenter creates in one scheduling pass for an unlimited number of pending pods.

    Source: scheduler.go, subtractMax. The `running` nodes have the smallest machine type. Karpenter compares
    `limits["nodes"]` only with running nodes.
    """
    if running >= int(limits["nodes"]):
        return 0
    least = min(capacities, key=lambda one: one["cpu"])
    left = {name: int(limit) - running * least.get(name, 0) for name, limit in limits.items() if name != "nodes"}
    for created in range(1000):
        fitting = [one for one in capacities if all(one.get(name, 0) <= most for name, most in left.items())]
        if not fitting:
            return created
        left = {name: most - max(one.get(name, 0) for one in fitting) for name, most in left.items()}
    return 1000


@pytest.mark.parametrize(
    ("capacity", "capacity_type", "reservations", "weight"),
    [
        ({"type": "on-demand"}, "on-demand", None, None),
        ({"type": "spot"}, "spot", None, None),
        (RESERVATION, "reserved", [{"id": "cr-0a1b2c3d4e5f60718"}], 100),
        (BLOCK, "reserved", [{"id": "cr-0a1b2c3d4e5f60718"}], 100),
    ],
)
def test_a_pool_takes_the_capacity_that_it_names_and_no_other(
    capacity: dict[str, Any], capacity_type: str, reservations: list[dict[str, str]] | None, weight: int | None
):
    form = said(machine_type="p5.4xlarge", capacity=capacity)
    assert requirement(form, "karpenter.sh/capacity-type") == [capacity_type]
    assert plan(form).node_class.get("capacityReservationSelectorTerms") == reservations
    assert plan(form).node_pool.get("weight") == weight


def test_reserved_capacity_is_taken_in_its_own_zone():
    form = said(capacity=RESERVATION)
    assert plan(form).zones == (ZONE,)
    assert requirement(form, "topology.kubernetes.io/zone") == [ZONE]


def test_nodes_are_the_machine_type_or_one_of_the_alternatives():
    form = said(karpenter={"alternatives": ["g6.8xlarge", "g6.16xlarge"]})
    assert requirement(form, "node.kubernetes.io/instance-type") == ["g6.4xlarge", "g6.8xlarge", "g6.16xlarge"]
    assert requirement(form, "kubernetes.io/arch") == ["amd64"]


def test_an_arm_pool_asks_for_arm_nodes():
    assert requirement(said(machine_type="g5g.2xlarge"), "kubernetes.io/arch") == ["arm64"]


def test_only_empty_training_nodes_go_and_none_for_its_age():
    node_pool = plan(training()).node_pool
    assert node_pool["disruption"]["consolidationPolicy"] == "WhenEmpty"
    assert node_pool["template"]["spec"]["expireAfter"] == "Never"
    allowed = {why: one["nodes"] for one in node_pool["disruption"]["budgets"] for why in one["reasons"]}
    assert allowed == {"Empty": "100%", "Drifted": "0", "Underutilized": "0"}


def test_underused_inference_nodes_are_removed_a_tenth_at_a_time():
    node_pool = plan(said(workload="inference")).node_pool
    assert node_pool["disruption"]["consolidationPolicy"] == "WhenEmptyOrUnderutilized"
    assert node_pool["disruption"]["budgets"] == [{"nodes": "10%"}]
    assert node_pool["template"]["spec"]["expireAfter"] == "504h"


def test_empty_development_nodes_go_after_ten_minutes():
    disruption = plan(said()).node_pool["disruption"]
    assert (disruption["consolidationPolicy"], disruption["consolidateAfter"]) == ("WhenEmpty", "10m")


def test_the_stack_may_say_how_long_nodes_are_kept():
    form = training(karpenter={"consolidate_after": "Never", "expire_after": "720h"})
    assert plan(form).node_pool["disruption"]["consolidateAfter"] == "Never"
    assert plan(form).node_pool["template"]["spec"]["expireAfter"] == "720h"


@pytest.mark.parametrize(("family", "shown"), [("al2023", "al2023@v2"), ("bottlerocket", "bottlerocket@v1.")])
def test_the_node_image_is_pinned_to_a_release(family: str, shown: str):
    form = said(workload="inference", image={"family": family})
    (term,) = plan(form).node_class["amiSelectorTerms"]
    assert term["alias"].startswith(shown)
    assert "latest" not in term["alias"]


def test_an_own_image_is_named_by_id_and_told_how_to_join_by_its_family():
    node_class = plan(said(image={"ami": AMI})).node_class
    assert node_class["amiSelectorTerms"] == [{"id": AMI}]
    assert node_class["amiFamily"] == "AL2023"


def test_kubelet_settings_of_al2023_are_user_data():
    form = training(topology={"policy": "restricted", "memory": "static"})
    kubelet = settings(form)["kubelet"]["config"]
    assert kubelet["topologyManagerPolicy"] == "restricted"
    assert kubelet["cpuManagerPolicy"] == "static"
    assert kubelet["memoryManagerPolicy"] == "Static"
    assert kubelet["reservedMemory"]


def test_kubelet_settings_of_bottlerocket_are_user_data():
    form = training(image={"family": "bottlerocket"})
    assert settings(form)["kubernetes"]["topology-manager-policy"] == "restricted"


@pytest.mark.parametrize("family", ["al2023", "bottlerocket"])
def test_local_disks_are_karpenters_and_never_mounted_twice(family: str):
    form = training(image={"family": family})
    assert plan(form).node_class["instanceStorePolicy"] == "RAID0"
    assert "instance" not in settings(form)
    assert "bootstrap-commands" not in settings(form)
    assert "instanceStorePolicy" not in plan({**form, "local_nvme": False}).node_class


def test_a_pool_without_kubelet_settings_has_no_user_data():
    assert "userData" not in plan(said()).node_class


@pytest.mark.parametrize("family", ["al2023", "bottlerocket"])
def test_every_volume_is_encrypted_and_goes_with_its_node(family: str):
    key = "arn:aws:kms:us-east-2:123456789012:key/0a1b2c3d"
    form = said(workload="inference", image={"family": family}, disk={"size_gb": 300, "kms_key": key})
    volumes = {one["deviceName"]: one["ebs"] for one in plan(form).node_class["blockDeviceMappings"]}
    data = "/dev/xvdb" if family == "bottlerocket" else "/dev/xvda"
    assert volumes[data]["volumeSize"] == "300Gi"
    for volume in volumes.values():
        assert volume["encrypted"] is True
        assert volume["deleteOnTermination"] is True
        assert volume["kmsKeyID"] == key
        assert volume["volumeType"] == "gp3"


def test_pods_do_not_reach_the_instance_metadata_and_version_one_is_off():
    options = plan(said()).node_class["metadataOptions"]
    assert (options["httpTokens"], options["httpPutResponseHopLimit"]) == ("required", 1)


def test_nodes_carry_the_labels_by_which_the_operator_finds_their_configs():
    labels = plan(said()).node_pool["template"]["metadata"]["labels"]
    assert labels["nvidia.com/device-plugin.config"] == "develop"
    assert labels["nvidia.com/gpu.present"] == "true"
    assert labels["gpu-platform.dev/pool"] == "develop"
    with_mig = plan(training()).node_pool["template"]["metadata"]["labels"]
    assert with_mig["nvidia.com/mig.config"] == "all-disabled"
    assert with_mig["vpc.amazonaws.com/efa.present"] == "true"


def test_nodes_have_the_pools_taints_and_none_that_nobody_takes_away():
    template = plan(said(taints=[{"key": "team", "value": "a", "effect": "NoExecute"}])).node_pool["template"][
        "spec"
    ]
    assert template["taints"] == [
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
        {"key": "team", "value": "a", "effect": "NoExecute"},
    ]
    assert "startupTaints" not in template


def test_check_says_what_karpenter_does_differently():
    _, decisions = plan_and_decisions(None, **training(sharing={**TIME_SLICING, "rename": False}))
    assert decisions["nodes"].chosen == "0 to 8"
    assert decisions["node image"].chosen.startswith("al2023@v")
    assert "Never" in decisions["disruption"].chosen
    assert "hugepages" in decisions["EFA in pods"].chosen
    assert "nvidia.com/gpu" in decisions["shares"].chosen


@pytest.mark.parametrize(("after", "chosen"), [("30s", "WhenEmpty after 30s"), ("Never", "unused nodes stay")])
def test_the_decision_on_disruption_follows_the_settings(after: str, chosen: str):
    _, decisions = plan_and_decisions(None, **training(karpenter={"consolidate_after": after}))
    assert chosen in decisions["disruption"].chosen
    assert "hour" not in decisions["disruption"].why
    assert ("empty nodes are deleted" in decisions["disruption"].why) == (after != "Never")


@pytest.mark.parametrize("part", ["install", "present"])
def test_check_says_that_karpenter_must_be_let_use_a_disk_key(part: str):
    key = "arn:aws:kms:us-east-2:123456789012:key/0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
    cluster = eks(parts={"karpenter": part})
    _, decisions = plan_and_decisions(cluster, **training(disk={"kms_key": key}))
    assert decisions["disk key"].chosen == key
    assert "must allow its use by Karpenter's IAM role" in decisions["disk key"].why
    assert ("whose IAM policy must also allow it" in decisions["disk key"].why) == (part == "present")


# -- what is refused ----------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "a minimum number of nodes": (
        said(count={"min": 1, "desired": 1, "max": 2}),
        "count.min",
        "provisioner: managed",
    ),
    "a desired number of nodes": (said(count={"desired": 2}), "count.desired", "desired: 0, max: 2"),
    "no maximum number of nodes": (said(count={"desired": 0}), "count.max", "maximum number"),
    "renamed shares": (said(sharing=TIME_SLICING), "sharing.rename", "rename: false"),
    "renamed mps shares": (said(sharing={"mode": "mps", "replicas": 4}), "sharing.rename", "rename: false"),
    "mig": (training(sharing={"mode": "mig", "layout": {"1g.10gb": 7}}), "sharing.mode", "provisioner: managed"),
    "mig with strategy single": (
        training(sharing={"mode": "mig", "layout": {"1g.10gb": 7}, "strategy": "single"}),
        "sharing.mode",
        "provisioner: managed",
    ),
    "dra": (said(sharing={"mode": "dra"}), "sharing.mode", "provisioner: managed"),
    "efa on the primary interface": (
        training(network={"layout": "efa-primary"}),
        "network.layout",
        "remove layout",
    ),
    "flex-start": (said(capacity={"type": "flex-start"}), "capacity.type", "write type: on-demand"),
    "static memory on bottlerocket": (
        training(image={"family": "bottlerocket"}, topology={"policy": "restricted", "memory": "static"}),
        "topology.memory",
        "al2023",
    ),
    "repair": (said(repair=True), "repair", "remove repair"),
    "upgrade": (said(upgrade={"max_unavailable": 1}), "upgrade", "remove upgrade"),
    "karpenters own label": (
        said(labels={"karpenter.sh/nodepool": "x"}),
        "labels.karpenter.sh/nodepool",
        "remove",
    ),
    "karpenters own aws label": (
        said(labels={"karpenter.k8s.aws/instance-family": "g6"}),
        "labels.karpenter.k8s.aws/instance-family",
        "remove",
    ),
    "an unknown alternative": (
        said(karpenter={"alternatives": ["g6.4xlargee"]}),
        "karpenter.alternatives[0]",
        "g6.4xlarge",
    ),
    "an alternative in another cloud": (
        said(karpenter={"alternatives": ["g2-standard-16"]}),
        "karpenter.alternatives[0]",
        "remove it",
    ),
    "an alternative with another gpu": (
        said(karpenter={"alternatives": ["g6.8xlarge", "g5.4xlarge"]}),
        "karpenter.alternatives[1]",
        "remove it",
    ),
    "an alternative with more gpus": (
        said(karpenter={"alternatives": ["g6.12xlarge"]}),
        "karpenter.alternatives[0]",
        "remove it",
    ),
    "an alternative twice": (
        said(karpenter={"alternatives": ["g6.8xlarge", "g6.8xlarge"]}),
        "karpenter.alternatives[1]",
        "remove it",
    ),
    "the machine type as alternative": (
        said(karpenter={"alternatives": ["g6.4xlarge"]}),
        "karpenter.alternatives[0]",
        "remove it",
    ),
    "an alternative with fewer efa interfaces": (
        training(karpenter={"alternatives": ["p5en.48xlarge"]}) | {"machine_type": "p5e.48xlarge"},
        "karpenter.alternatives[0]",
        "remove it",
    ),
    "alternatives to reserved capacity": (
        said(capacity=RESERVATION, karpenter={"alternatives": ["g6.8xlarge"]}),
        "karpenter.alternatives",
        "remove alternatives",
    ),
    "a cpu limit below one node": (said(karpenter={"limits": {"cpu": "8"}}), "karpenter.limits.cpu", "write 128"),
    "a memory limit below one node": (
        said(karpenter={"limits": {"memory": "32Gi"}}),
        "karpenter.limits.memory",
        "write 524288Mi",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_leave_pods_waiting_is_refused_with_its_place_and_a_fix(name: str):
    form, place, fix = REFUSED[name]
    found = {problem.path: problem for problem in problems_of(pool(**form))}
    assert f"pool.{place}" in found
    fixes = [problem.fix for problem in problems_of(pool(**form)) if problem.path == f"pool.{place}"]
    assert any(fix in one for one in fixes), fixes


def test_an_alternative_of_another_architecture_is_refused_even_with_an_equal_gpu():
    catalog = load_catalog()
    twin = catalog.machine_types["g6.8xlarge"].model_copy(update={"name": "g6x.8xlarge", "arch": "arm64"})
    catalog = dataclasses.replace(catalog, machine_types={**catalog.machine_types, twin.name: twin})
    problems = Problems("pool")
    spec = pool(**said(karpenter={"alternatives": [twin.name]}))
    check_alternatives(spec, catalog.machine_types["g6.4xlarge"], catalog, problems)
    assert ["arm64" in problem.found for problem in problems.found] == [True]


def test_efa_is_refused_on_types_with_efa_only_on_the_primary():
    catalog = load_catalog()
    family = catalog.families["aws", "p5"].model_copy(update={"efa_only": False})
    catalog = dataclasses.replace(catalog, families={**catalog.families, ("aws", "p5"): family})
    problems = Problems("pool")
    check_karpenter_pool(pool(**training()), catalog.machine_types["p5.48xlarge"], catalog, problems)
    assert [problem.path for problem in problems.found] == ["pool.network.rdma"]


def test_all_mistakes_of_a_pool_are_found_in_one_run():
    form = said(count={"min": 1, "desired": 1}, sharing=TIME_SLICING, karpenter={"alternatives": ["p5.48xlarge"]})
    places = {problem.path.removeprefix("pool.") for problem in problems_of(pool(**form))}
    assert places == {"count.min", "count.desired", "sharing.rename", "karpenter.alternatives[0]"}


# -- every valid pool ---------------------------------------------------------------------------------------

MACHINES = sorted(one.name for one in load_catalog().machine_types.values() if one.vendor == "aws" and one.gpu)
SHARED = {**TIME_SLICING, "rename": False}
TOPOLOGY = {"policy": "restricted", "memory": "static"}


def mostly(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from([usual] * 6 + list(others))


@st.composite
def forms(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the fields of a pool. Most pools are valid. The others combine settings that are refused."""
    machine = draw(st.sampled_from(MACHINES))
    catalog = load_catalog()
    alike = [
        name
        for name in MACHINES
        if name != machine
        and catalog.machine_types[name].gpu == catalog.machine_types[machine].gpu
        and catalog.machine_types[name].gpu_count == catalog.machine_types[machine].gpu_count
    ]
    others = draw(st.lists(st.sampled_from(draw(mostly(alike, MACHINES)) or MACHINES), max_size=2, unique=True))
    return said(
        machine_type=machine,
        count={"desired": draw(mostly(0, 1)), "max": draw(st.integers(1, 9))},
        capacity=draw(mostly({"type": "on-demand"}, {"type": "spot"}, RESERVATION, BLOCK)),
        workload=draw(st.sampled_from(["training", "inference", "development"])),
        sharing=draw(
            mostly({"mode": "none"}, TIME_SLICING, SHARED, SHARED, {"mode": "mig", "layout": {"1g.10gb": 7}})
        ),
        image=draw(mostly({}, {"family": "bottlerocket"}, {"ami": AMI, "driver": "595.91.07"})),
        network=draw(mostly({}, {"rdma": True}, {"rdma": False}, {"layout": "efa-primary"})),
        placement=draw(mostly(None, {"type": "cluster"}, {"type": "cluster", "group": "row"}, {"type": "none"})),
        zones=draw(mostly([ZONE], None, [ZONE, "us-east-2b"])),
        topology=draw(mostly(None, TOPOLOGY)),
        local_nvme=draw(st.booleans()),
        karpenter=draw(mostly(None, *[{"alternatives": others}] * 4)),
    )


@given(forms())
def test_every_pool_that_passes_can_have_nodes_and_not_too_many(form: dict[str, Any]):
    assume(not problems_of(pool(**form)))
    cloud, catalog = plan(form), load_catalog()
    machine = catalog.machine_types[form["machine_type"]]
    resources = {offer.name for offer in plan_and_decisions(None, **form)[0].resources}
    assert resources == {"nvidia.com/gpu"}, "Karpenter does not support other GPU resources"
    limits = cloud.node_pool["limits"]
    assert int(limits["nodes"]) >= 1
    assert int(limits["nvidia.com/gpu"]) >= machine.gpu_count
    interfaces = cloud.node_class.get("networkInterfaces", [])
    assert bool(interfaces) == cloud.efa
    if interfaces:
        assert interfaces[0] == {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}
        assert {one["interfaceType"] for one in interfaces[1:]} == {"efa-only"}
        assert len(interfaces) == 1 + machine.rdma_interfaces
    if cloud.placement_group is not None:
        assert len(cloud.zones) == 1
        assert cloud.node_class["placementGroupSelector"] == {"name": cloud.placement_group.name}
    reserved = requirement(form, "karpenter.sh/capacity-type") == ["reserved"]
    assert reserved == ("capacityReservationSelectorTerms" in cloud.node_class)
    for name in requirement(form, "node.kubernetes.io/instance-type"):
        assert catalog.machine_types[name].gpu == machine.gpu


def test_every_workload_says_what_goes_when():
    for disruption in DISRUPTION.values():
        for budget in disruption.budgets:
            assert set(budget) <= {"nodes", "reasons"}


# -- the controller -----------------------------------------------------------------------------------------


def policy() -> list[dict[str, Any]]:
    return controller_policy("us-east-2", "ml", NODE_ROLE, QUEUE)["Statement"]


def test_the_controllers_policy_fits_into_a_role():
    text = json.dumps(controller_policy("us-east-2", "c" * 63, NODE_ROLE, QUEUE), separators=(",", ":"))
    assert len(text) <= 10_240, "IAM allows 10,240 characters of inline policies on a role"


@pytest.mark.parametrize(
    "action",
    [
        "ec2:TerminateInstances",
        "ec2:DeleteLaunchTemplate",
        "ec2:CreateLaunchTemplate",
        "ec2:CreateTags",
        "iam:CreateInstanceProfile",
        "iam:TagInstanceProfile",
        "iam:AddRoleToInstanceProfile",
        "iam:RemoveRoleFromInstanceProfile",
        "iam:DeleteInstanceProfile",
    ],
)
def test_the_controller_changes_only_resources_tagged_for_its_cluster(action: str):
    statements = [one for one in policy() if action in one["Action"]]
    assert statements
    for statement in statements:
        owned = {
            key: value for key, value in statement["Condition"]["StringEquals"].items() if "/cluster/ml" in key
        }
        assert set(owned.values()) == {"owned"}


def test_the_controller_passes_the_role_of_its_nodes_and_no_other():
    (statement,) = [one for one in policy() if "iam:PassRole" in one["Action"]]
    assert statement["Resource"] == NODE_ROLE


def test_what_is_allowed_on_everything_only_reads():
    actions = [action for one in policy() if one["Resource"] == "*" for action in one["Action"]]
    assert actions
    assert not [one for one in actions if not one.split(":")[1].startswith(("Describe", "Get", "List"))]


def test_machines_are_made_only_of_tagged_launch_templates():
    runs = [one for one in policy() if "ec2:RunInstances" in one["Action"]]
    of_templates = [one for one in runs if any("launch-template/" in resource for resource in one["Resource"])]
    assert of_templates
    assert all("Condition" in one for one in of_templates)


def test_the_policy_covers_reservations_and_placement_groups():
    actions = {action for one in policy() for action in one["Action"]}
    assert {
        "ec2:DescribeCapacityReservations",
        "ec2:DescribePlacementGroups",
        "ec2:DescribeInstanceStatus",
    } <= actions
    places = {resource for one in policy() if "ec2:RunInstances" in one["Action"] for resource in one["Resource"]}
    assert "arn:aws:ec2:us-east-2:*:capacity-reservation/*" in places
    assert "arn:aws:ec2:us-east-2:*:placement-group/*" in places


KEYS = "arn:aws:kms:us-east-2:123456789012"


@pytest.mark.parametrize(
    ("key", "on", "aliases"),
    [
        (f"{KEYS}:key/0a1b2c3d", f"{KEYS}:key/0a1b2c3d", None),
        (f"{KEYS}:alias/disks", f"{KEYS}:key/*", ["alias/disks"]),
    ],
)
def test_the_controller_may_have_ec2_encrypt_volumes_with_the_keys_of_its_pools(key: str, on: str, aliases: Any):
    document = controller_policy("us-east-2", "ml", NODE_ROLE, QUEUE, [key])
    use, grant = (one for one in document["Statement"] if one["Action"][0].startswith("kms:"))
    assert "kms:GenerateDataKeyWithoutPlaintext" in use["Action"]
    assert grant["Action"] == ["kms:CreateGrant"]
    assert grant["Condition"]["Bool"] == {"kms:GrantIsForAWSResource": "true"}
    for statement in (use, grant):
        assert statement["Resource"] == on
        assert statement["Condition"]["StringEquals"] == {"kms:ViaService": "ec2.us-east-2.amazonaws.com"}
        named = statement["Condition"].get("ForAnyValue:StringEquals", {})
        assert named.get("kms:ResourceAliases") == aliases


def test_the_controller_knows_the_keys_of_its_pools_each_once():
    own_key = said(disk={"kms_key": f"{KEYS}:key/0a1b2c3d"})
    pools = [plan(own_key), plan(own_key), plan(said())]
    assert karpenter_controller(eks(), pools, load_catalog()).disk_keys == (f"{KEYS}:key/0a1b2c3d",)
    assert karpenter_controller(eks(), pools[2:], load_catalog()).disk_keys == ()


def test_only_the_platforms_rules_write_to_the_queue_and_only_with_tls():
    rules = ["arn:aws:events:us-east-2:123456789012:rule/b", "arn:aws:events:us-east-2:123456789012:rule/a"]
    allow, deny = queue_policy(QUEUE, rules)["Statement"]
    assert allow["Principal"] == {"Service": "events.amazonaws.com"}
    assert allow["Condition"] == {"ArnEquals": {"aws:SourceArn": sorted(rules)}}
    assert (deny["Effect"], deny["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})


def test_the_controller_runs_off_the_gpu_nodes_and_knows_cluster_and_queue():
    controller = karpenter_controller(eks(), [], load_catalog())
    assert controller.values["settings"]["clusterName"] == "ml"
    assert controller.values["settings"]["interruptionQueue"] == controller.queue
    terms = controller.values["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = terms["nodeSelectorTerms"]
    assert {(one["key"], one["operator"]) for one in term["matchExpressions"]} == {
        ("karpenter.sh/nodepool", "DoesNotExist"),
        ("gpu-platform.dev/pool", "DoesNotExist"),
    }


def test_a_production_cluster_has_a_second_controller():
    replicas = [
        karpenter_controller(eks(production=on), [], load_catalog()).values["replicas"] for on in (True, False)
    ]
    assert replicas == [2, 1]


def test_charts_are_pinned_and_the_crds_go_with_the_controller():
    charts = load_catalog().charts
    assert charts["karpenter"].version == charts["karpenter-crd"].version
    assert charts["karpenter"].version.startswith("1.14.")


def test_a_taint_without_a_value_has_no_empty_value_in_the_node_pool() -> None:
    (_, own) = plan(said(taints=[{"key": "team", "effect": "NoSchedule"}])).node_pool["template"]["spec"]["taints"]
    assert own == {"key": "team", "effect": "NoSchedule"}


@given(forms())
def test_a_burst_of_pods_gets_no_more_nodes_than_the_pool_may_have(form: dict[str, Any]):
    assume(not problems_of(pool(**form)))
    catalog = load_catalog()
    names = [form["machine_type"], *(form.get("karpenter") or {}).get("alternatives", ())]
    machines = [catalog.machine_types[name] for name in names]
    capacities = [{"cpu": one.vcpu, "nvidia.com/gpu": one.gpu_count} for one in machines]
    limits = {name: most for name, most in plan(form).node_pool["limits"].items() if name != "memory"}
    for running in range(int(limits["nodes"]) + 1):
        assert running + created_in_one_pass(limits, capacities, running) <= int(limits["nodes"])
