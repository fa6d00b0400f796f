"""Which deployed pools an edit of the stack file deletes or replaces, how many GPUs this affects, and why."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import pytest

from gpu_platform.catalog import load_catalog
from gpu_platform.planning.changes import PoolChange, pool_changes, pool_facts
from gpu_platform.planning.clouds.eks.cluster_plan import CreateEksPlan, EksClusterPlan, IamPlan, VpcPlan
from gpu_platform.planning.clouds.eks.launch_plan import BlockDevice, NetworkInterface, UserData
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan, KarpenterPoolPlan, PlacementGroup
from gpu_platform.planning.clouds.gke.plan import (
    Accelerator,
    CompactPlacement,
    CreateGkePlan,
    GkeClusterPlan,
    GkeKubelet,
    GkePoolPlan,
    GpuNetwork,
    ReservationAffinity,
    UpgradeSettings,
)
from gpu_platform.planning.nodes.section import KubeletLimits, NodeScript
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform
from tests.stack.field_cases import STACKS
from tests.support.cloud_plans import environment, filled, on_cloud

EKS = filled(EksClusterPlan, name="ml", region="us-east-2")
GKE = filled(GkeClusterPlan, name="ml", project="my-project", location="us-central1")
GROUP = filled(
    EksPoolPlan,
    node_group="train",
    instance_type="p4de.24xlarge",
    ami_type="AL2023_x86_64_NVIDIA",
    capacity_type="ON_DEMAND",
    zones=("us-east-2a",),
)
KARPENTER = filled(
    KarpenterPoolPlan,
    name="train",
    node_class={"spec": {"amiSelectorTerms": [{"alias": "al2023@v1"}]}},
    node_pool={
        "spec": {
            "template": {
                "spec": {"requirements": [{"key": "instance", "values": ["p4de.24xlarge"]}], "taints": []}
            },
            "disruption": {"consolidateAfter": "1h"},
        }
    },
)
NODE_POOL = filled(
    GkePoolPlan,
    node_pool="train",
    machine_type="a2-highgpu-8g",
    accelerator=filled(Accelerator, type="nvidia-tesla-a100", count=8, driver_version="DEFAULT"),
    node_locations=("us-central1-a",),
    upgrade=UpgradeSettings(strategy="SURGE", max_surge=1, max_unavailable=0),
    reservation=ReservationAffinity(type="NO_RESERVATION"),
)


def deployed(plan: EnvironmentPlan) -> Any:
    """Return the stack output `pools` as it is read from the state of a deployment."""
    return json.loads(json.dumps(pool_facts(plan)))


def changes(before: EnvironmentPlan, after: EnvironmentPlan) -> tuple[PoolChange, ...]:
    return pool_changes(deployed(before), after, load_catalog())


def eks(cluster: EksClusterPlan = EKS, nodes: int = 4, **fields: Any) -> EnvironmentPlan:
    return on_cloud(environment({"train": nodes}), cluster, train=dataclasses.replace(GROUP, **fields))


def karpenter(**fields: Any) -> EnvironmentPlan:
    return on_cloud(environment({"train": 4}), EKS, train=dataclasses.replace(KARPENTER, **fields))


def gke(cluster: GkeClusterPlan = GKE, **fields: Any) -> EnvironmentPlan:
    return on_cloud(environment({"train": 4}), cluster, train=dataclasses.replace(NODE_POOL, **fields))


def accelerator(**fields: Any) -> dict[str, Any]:
    assert NODE_POOL.accelerator is not None
    return {"accelerator": dataclasses.replace(NODE_POOL.accelerator, **fields)}


def what(before: EnvironmentPlan, after: EnvironmentPlan) -> tuple[str, list[str]]:
    (change,) = changes(before, after)
    return change.effect, [cause.field for cause in change.causes]


def test_a_plan_that_is_deployed_already_takes_nothing_away() -> None:
    for plan in (eks(), karpenter(), gke(), environment({"train": 2})):
        assert changes(plan, plan) == ()


def test_a_new_stack_or_an_older_release_has_no_changes() -> None:
    for previous in (None, {}, {"train": {"nodes": 4}}, "text"):
        assert pool_changes(previous, eks(), load_catalog()) == ()


def test_a_change_says_pool_field_old_new_reason_source_and_gpus() -> None:
    (change,) = changes(eks(nodes=4), eks(nodes=2, capacity_type="SPOT"))

    assert (change.pool, change.effect, change.gpus) == ("train", "replaced", 4 * 8)
    (cause,) = change.causes
    assert (cause.field, cause.old, cause.new) == ("pools[0].capacity.type", "ON_DEMAND", "SPOT")
    assert cause.because == "a node group keeps its capacity type"
    assert "terraform-provider-aws" in cause.source
    text = str(change)
    assert text.splitlines()[0] == "pool train is replaced: 32 GPUs are lost; the new pool is created first"
    assert "pools[0].capacity.type: ON_DEMAND → SPOT: a node group keeps its capacity type (terraform" in text
    assert change.to_json()["causes"][0]["field"] == "pools[0].capacity.type"


@pytest.mark.parametrize(
    ("fields", "effect", "field"),
    [
        ({"ami_type": "BOTTLEROCKET_x86_64_NVIDIA"}, "replaced", "pools[0].image.family or image.ami"),
        ({"ami_type": "CUSTOM", "ami": "ami-0a1b2c3d"}, "replaced", "pools[0].image.family or image.ami"),
        ({"alternatives": ("p5.48xlarge",)}, "replaced", "pools[0].capacity.alternatives"),
        ({"capacity_type": "CAPACITY_BLOCK"}, "replaced", "pools[0].capacity.type"),
        ({"zones": ("us-east-2b",)}, "replaced", "pools[0].capacity.zone or zones"),
        ({"instance_type": "p5.48xlarge"}, "rolled", "pools[0].machine_type"),
        ({"capacity_reservation": "cr-0a1b2c3d"}, "rolled", "pools[0].capacity.reservation"),
        ({"avoids_reservations": True}, "rolled", "pools[0].capacity.reservation"),
        (
            {"placement_group": PlacementGroup(name="train", create=True)},
            "rolled",
            "pools[0].capacity.placement_group or placement",
        ),
        (
            {"interfaces": (NetworkInterface(network_card_index=0, device_index=0, interface_type="efa"),)},
            "rolled",
            "pools[0].network",
        ),
    ],
)
def test_eks_replaces_or_rolls_a_node_group_depending_on_the_field(
    fields: Mapping[str, Any], effect: str, field: str
) -> None:
    assert what(eks(), eks(**fields)) == (effect, [field])


def test_a_new_version_rolls_eks_nodes_except_custom_images() -> None:
    newer = dataclasses.replace(EKS, kubernetes="1.36")
    older = dataclasses.replace(EKS, kubernetes="1.35")
    assert what(eks(older), eks(newer)) == ("rolled", ["cluster.kubernetes"])
    own: dict[str, Any] = {"ami_type": "CUSTOM", "ami": "ami-0a1b2c3d"}
    assert changes(eks(older, **own), eks(newer, **own)) == ()


def test_further_security_groups_of_the_nodes_roll_them() -> None:
    wider = dataclasses.replace(EKS, security_groups=("sg-0a1b2c3d",))
    assert what(eks(), eks(wider)) == ("rolled", ["cluster.security_groups"])
    of_karpenter = on_cloud(environment({"train": 4}), wider, train=KARPENTER)
    assert what(karpenter(), of_karpenter) == ("rolled", ["cluster.security_groups"])


@pytest.mark.parametrize(
    "fields",
    [
        {"labels": {"a": "b"}},
        {"min_size": 2, "desired_size": 9, "max_size": 9},
        {"max_unavailable": 3},
        {"node_repair": True},
        {"tags": {"cost-centre": "7"}},
        {"update_strategy": "MINIMAL"},
    ],
)
def test_eks_changes_labels_sizes_and_update_settings_in_place(fields: Mapping[str, Any]) -> None:
    assert changes(eks(), eks(**fields)) == ()


@pytest.mark.parametrize(
    ("fields", "effect", "field"),
    [
        (accelerator(driver_version="INSTALLATION_DISABLED"), "replaced", "device_plugin"),
        (accelerator(sharing_strategy="TIME_SHARING", max_shared_clients=4), "replaced", "sharing"),
        (accelerator(partition_size="1g.5gb"), "replaced", "sharing.layout"),
        (accelerator(count=4) | {"machine_type": "a2-highgpu-4g"}, "replaced", "machine_type"),
        ({"spot": True}, "replaced", "capacity.type"),
        ({"flex_start": True}, "replaced", "capacity.type"),
        ({"queued_provisioning": True}, "replaced", "capacity.queued"),
        ({"max_run_duration_seconds": 3600}, "replaced", "capacity.max_run_duration"),
        ({"placement": CompactPlacement(policy="train", create=True)}, "replaced", "placement"),
        ({"network": "profile"}, "replaced", "network"),
        ({"secure_boot": True}, "replaced", "image.family"),
        ({"local_ssd_count": 8}, "replaced", "machine_type"),
        ({"kms_key": "key"}, "replaced", "disk.kms_key"),
        ({"machine_type": "a2-ultragpu-8g"}, "rolled", "machine_type"),
        ({"image_type": "UBUNTU_CONTAINERD"}, "rolled", "image.family"),
        ({"disk_size_gb": 500}, "rolled", "disk"),
        ({"kubelet": filled(GkeKubelet, cpu_manager_policy="static")}, "rolled", "topology or bootstrap"),
        ({"kubelet_limits": KubeletLimits(pod_pids_limit=4096)}, "rolled", "topology or bootstrap"),
        ({"init_script": NodeScript(gcs="gs://a/b", generation=2)}, "rolled", "tuning or bootstrap"),
        ({"node_locations": ("us-central1-b",)}, "rolled", "capacity.zone or zones"),
    ],
)
def test_gke_8_a_changed_driver_or_sharing_config_replaces_the_pool(
    fields: Mapping[str, Any], effect: str, field: str
) -> None:
    assert what(gke(), gke(**fields)) == (effect, [f"pools[0].{field}"])


@pytest.mark.parametrize(
    "script",
    [
        NodeScript(gcs="gs://a/b", generation=3),
        NodeScript(gcs="gs://a/c", generation=2),
        NodeScript(secret="projects/1/secrets/a/versions/1"),
    ],
)
def test_gke_rolls_nodes_for_another_script_or_generation(script: NodeScript) -> None:
    before = gke(init_script=NodeScript(gcs="gs://a/b", generation=2))
    assert what(before, gke(init_script=script)) == ("rolled", ["pools[0].tuning or bootstrap"])


def test_gke_rolls_nodes_for_another_version_of_the_scripts_secret() -> None:
    first, second = (NodeScript(secret=f"projects/1/secrets/a/versions/{number}") for number in (1, 2))
    assert what(gke(init_script=first), gke(init_script=second))[0] == "rolled"


def test_gke_leaves_flex_start_nodes_as_they_are_and_rolls_none() -> None:
    flex = {"flex_start": True, "upgrade": None}
    assert changes(gke(**flex), gke(**flex, image_streaming=True)) == ()
    assert what(gke(**flex, node_locations=("us-central1-a", "us-central1-b")), gke(**flex)) == (
        "rolled",
        ["pools[0].capacity.zone or zones"],
    )


def test_gke_replaces_a_pool_only_for_changes_of_its_own_networks() -> None:
    networks = tuple(filled(GpuNetwork, vpc=f"gpu-{index}", subnet="nodes") for index in range(8))
    four, eight = (dataclasses.replace(GKE, networks=networks[:count]) for count in (4, 8))
    joins = {"network": "networks", "gpu_networks": 4}

    assert changes(gke(four, **joins), gke(eight, **joins)) == ()
    assert what(gke(eight, **joins), gke(eight, **joins | {"gpu_networks": 8})) == (
        "replaced",
        ["pools[0].network"],
    )


def test_gke_8_the_preview_must_warn_and_names_the_issue_as_its_source() -> None:
    (change,) = changes(gke(), gke(**accelerator(driver_version="LATEST")))

    assert "hashicorp/terraform-provider-google#23248" in str(change)
    assert change.gpus == 32


def test_gke_rolls_for_image_streaming_and_replaces_for_another_cache() -> None:
    assert what(gke(), gke(image_streaming=True)) == ("rolled", ["pools[0].image.fast_pull"])
    cached = gke(image_streaming=True, image_cache="projects/p/global/images/a")
    other = gke(image_streaming=True, image_cache="projects/p/global/images/b")
    assert what(cached, other) == ("replaced", ["pools[0].image.cache"])


def test_eks_rolls_nodes_for_parallel_pulls_and_for_another_cache_of_images() -> None:
    disk = BlockDevice(
        device_name="/dev/xvdb", size_gib=200, volume_type="gp3", iops=None, throughput_mibps=None, kms_key=None
    )
    cached = dataclasses.replace(disk, snapshot="snap-0a1b2c3d")
    effect, _ = what(eks(block_devices=(disk,)), eks(block_devices=(cached,)))
    assert effect == "rolled"
    gate = UserData(
        format="nodeadm", settings={"spec": {"featureGates": {"FastImagePull": True}}}, needs_cluster_access=False
    )
    effect, _ = what(eks(), eks(user_data=gate))
    commands = dataclasses.replace(gate, commands=("update-ca-trust",))
    assert what(eks(user_data=gate), eks(user_data=commands))[0] == "rolled"
    assert effect == "rolled"


def test_more_zones_cost_no_node() -> None:
    more: dict[str, Any] = {"node_locations": ("us-central1-a", "us-central1-c")}
    assert changes(gke(), gke(**more)) == ()
    assert changes(gke(), gke(node_locations=())) == ()
    assert what(gke(node_locations=()), gke()) == ("rolled", ["pools[0].capacity.zone or zones"])


def test_karpenter_replaces_nodes_that_have_drifted_from_template_or_node_class() -> None:
    template = KARPENTER.node_pool["spec"]["template"]["spec"]
    other_types = {**template, "requirements": [{"key": "instance", "values": ["p5.48xlarge"]}]}
    tainted = {**template, "taints": [{"key": "a"}]}

    assert what(karpenter(), karpenter(node_class={"spec": {"amiSelectorTerms": [{"alias": "al2023@v2"}]}})) == (
        "rolled",
        [
            "pools[0].capacity.reservation, capacity.placement_group, placement, topology, tuning, bootstrap, "
            "tags, image.family, image.ami, image.release, image.fast_pull, image.cache, network, disk or "
            "local_nvme"
        ],
    )
    assert what(karpenter(), karpenter(node_pool={"spec": {"template": {"spec": other_types}}})) == (
        "rolled",
        [
            "pools[0].machine_type, capacity.type, capacity.alternatives, capacity.zone, zones or "
            "karpenter.alternatives"
        ],
    )
    assert what(karpenter(), karpenter(node_pool={"spec": {"template": {"spec": tainted}}})) == (
        "rolled",
        ["pools[0].labels, taints, gate_nodes or karpenter.expire_after"],
    )


def test_karpenter_keeps_nodes_where_only_limits_and_consolidation_change() -> None:
    spec = {**KARPENTER.node_pool["spec"], "disruption": {"consolidateAfter": "5m"}, "limits": {"cpu": "9"}}
    assert changes(karpenter(), karpenter(node_pool={"spec": spec})) == ()


def test_another_provisioner_makes_another_pool() -> None:
    assert what(eks(), karpenter()) == ("replaced", ["pools[0].provisioner"])


def test_a_cluster_that_is_replaced_takes_every_pool_with_it() -> None:
    for field in ("name", "region"):
        changed: dict[str, Any] = {field: "other"}
        assert what(eks(), eks(dataclasses.replace(EKS, **changed))) == ("replaced", [f"cluster.{field}"])
    for field in ("name", "project", "location"):
        changed = {field: "other"}
        assert what(gke(), gke(dataclasses.replace(GKE, **changed))) == ("replaced", [f"cluster.{field}"])


def test_a_pool_that_names_no_zones_stays_where_it_is() -> None:
    assert what(eks(zones=()), eks(zones=("us-east-2a",))) == ("replaced", ["pools[0].capacity.zone or zones"])
    assert changes(eks(zones=("us-east-2a",)), eks(zones=())) == ()


def test_only_reserved_capacity_is_deleted_before_its_replacement() -> None:
    reserved = {"capacity_type": "CAPACITY_BLOCK", "delete_before_replace": True}
    (first,) = changes(eks(**reserved), eks(**reserved, zones=("us-east-2b",)))
    (later,) = changes(eks(), eks(zones=("us-east-2b",)))

    assert (first.order, later.order) == ("delete-first", "create-first")
    assert "the old pool is deleted first, because there is no capacity for both" in str(first)


def test_a_roll_says_whether_a_node_is_deleted_before_its_replacement_is_created() -> None:
    (minimal,) = changes(eks(), eks(instance_type="p5.48xlarge", update_strategy="MINIMAL"))
    (default,) = changes(eks(), eks(instance_type="p5.48xlarge"))
    no_surge = UpgradeSettings(strategy="SURGE", max_surge=0, max_unavailable=1)
    (reserved,) = changes(gke(), gke(disk_size_gb=500, upgrade=no_surge))
    (surge,) = changes(gke(), gke(disk_size_gb=500))

    assert [one.order for one in (minimal, default, reserved, surge)] == [
        "delete-first",
        "create-first",
        "delete-first",
        "create-first",
    ]
    assert "32 GPUs are lost, node by node, each before its replacement is created" in str(minimal)


def test_fields_that_replace_a_pool_hide_those_that_only_roll_it() -> None:
    (change,) = changes(eks(), eks(instance_type="p5.48xlarge", zones=("us-east-2b",), capacity_type="SPOT"))

    assert change.effect == "replaced"
    assert [cause.field for cause in change.causes] == [
        "pools[0].capacity.type",
        "pools[0].capacity.zone or zones",
    ]


def test_only_the_deletion_of_a_protected_pool_stops_up() -> None:
    (replaced,) = changes(eks(protect=True), eks(protect=False, zones=("us-east-2b",)))
    (rolled,) = changes(eks(protect=True), eks(protect=True, instance_type="p5.48xlarge"))

    assert replaced.protected
    assert "`up` refuses: set cluster.protect: false" in str(replaced)
    assert not rolled.protected


def test_a_removed_pool_is_reported_with_its_gpus() -> None:
    before = environment({"train": 2, "serve": 1})
    (change,) = changes(before, environment({"serve": 1}))

    assert (change.pool, change.effect, change.gpus) == ("train", "removed", 16)
    assert "the stack file no longer declares the pool" in str(change)


def test_a_renamed_pool_is_one_change_and_not_a_removal() -> None:
    before = environment({"train": 2, "serve": 1})
    (change,) = changes(before, environment({"learn": 2, "serve": 1}))

    assert (change.pool, change.effect, change.gpus) == ("train", "renamed", 16)
    assert (change.causes[0].field, change.causes[0].new) == ("pools[0].name", "learn")


def test_a_renamed_pool_on_reserved_capacity_waits_for_the_old_one() -> None:
    group = dataclasses.replace(GROUP, delete_before_replace=True)
    before = on_cloud(environment({"train": 4}), EKS, train=group)
    named = dataclasses.replace(group, placement_group=PlacementGroup(name="learn", create=True))
    (change,) = changes(before, on_cloud(environment({"learn": 4}), EKS, learn=named))

    assert change.effect == "renamed"
    assert "the new pool gets no nodes before" in str(change)


def test_a_pool_of_other_machines_under_another_name_is_no_renaming() -> None:
    before = environment({"train": 2})
    after = environment({"learn": 3})
    assert [change.effect for change in changes(before, after)] == ["removed"]


def test_an_autoscaled_pool_shows_the_most_gpus_that_may_go() -> None:
    plan = eks()
    (pool,) = plan.pools
    scaled = dataclasses.replace(
        plan, pools=(dataclasses.replace(pool, nodes=dataclasses.replace(pool.nodes, max=10)),)
    )
    (change,) = changes(scaled, eks(zones=("us-east-2b",)))

    assert (change.gpus, change.gpus_most) == (32, 80)
    assert "32 GPUs are lost (at most 80 if the autoscaler has scaled up)" in str(change)


def test_in_the_sandbox_another_machine_type_and_fewer_nodes_take_gpus_away() -> None:
    other = {"name": "train", "machine_type": "g5.12xlarge", "count": {"desired": 2}, "workload": "inference"}
    after = plan_platform({"kind": "environment", "cluster": {"provider": "sandbox"}, "pools": [other]}, "test")
    assert after.kind == "environment"
    (typed,) = changes(environment({"train": 2}), after)
    (fewer,) = changes(environment({"train": 3}), environment({"train": 1}))

    assert (typed.effect, typed.gpus, typed.causes[0].field) == ("replaced", 16, "pools[0].machine_type")
    assert (fewer.effect, fewer.gpus, fewer.causes[0].field) == ("shrunk", 16, "pools[0].count.desired")
    assert changes(environment({"train": 1}), environment({"train": 3})) == ()


def test_nodes_of_an_existing_cluster_are_somebody_elses_and_stay() -> None:
    def existing(name: str) -> EnvironmentPlan:
        entry = {"name": name, "machine_type": "p4de.24xlarge", "count": {"desired": 1}, "workload": "training"}
        pool = {**entry, "nodes": {"names": ["gpu-0"]}}
        plan = plan_platform({"kind": "environment", "cluster": {"provider": "existing"}, "pools": [pool]}, "test")
        assert plan.kind == "environment"
        return plan

    assert changes(existing("train"), existing("learn")) == ()


def test_pool_properties_are_exactly_those_of_the_catalogue() -> None:
    aks = plan_platform(dict(STACKS["aks"]), "test")
    assert aks.kind == "environment"
    plans = {
        "eks": eks(),
        "karpenter": karpenter(),
        "gke": gke(),
        "aks": aks,
        "sandbox": environment({"train": 1}),
    }
    exported = {
        (platform, name) for platform, plan in plans.items() for name in pool_facts(plan)["train"]["properties"]
    }
    assert exported == set(load_catalog().pool_properties)


def test_exported_facts_survive_every_engine_state() -> None:
    for plan in (eks(), karpenter(), gke()):
        facts = pool_facts(plan)["train"]
        assert deployed(plan)["train"] == facts
        assert all(isinstance(value, str) for value in facts["properties"].values())


def test_a_pool_that_gets_a_reservation_is_rolled_and_one_that_loses_it_is_replaced() -> None:
    reserved = {"capacity_reservation": "cr-0a1b2c3d", "delete_before_replace": True}

    assert what(eks(), eks(**reserved)) == ("rolled", ["pools[0].capacity.reservation"])
    (back,) = changes(eks(**reserved), eks())
    assert (back.effect, back.order) == ("replaced", "create-first")
    assert [cause.field for cause in back.causes] == ["pools[0].capacity.type"]


def with_iam(**iam: Any) -> EksClusterPlan:
    created = filled(CreateEksPlan, vpc=filled(VpcPlan, cidr="10.0.0.0/16"))
    return dataclasses.replace(EKS, create=created, iam=filled(IamPlan, **{"path": "/"} | iam))


def test_a_new_node_role_replaces_pools_and_a_new_path_the_cluster() -> None:
    role, fields = (
        with_iam(node_role="arn:aws:iam::123456789012:role/gpu"),
        "cluster.iam.path or cluster.iam.node_role",
    )
    assert what(eks(with_iam()), eks(role)) == ("replaced", [fields])
    assert changes(eks(with_iam()), eks(with_iam(boundary="arn:aws:iam::aws:policy/a"))) == ()
    _, causes = what(eks(with_iam()), eks(with_iam(path="/ml/")))
    assert causes == ["cluster.iam.path", fields]
    nodes = on_cloud(environment({"train": 4}), with_iam(), train=KARPENTER)
    other = dataclasses.replace(with_iam(), karpenter_node_role="KarpenterNodeRole-ml")
    (rolled,) = changes(nodes, on_cloud(environment({"train": 4}), other, train=KARPENTER))
    assert (rolled.effect, rolled.causes[0].new) == ("rolled", "KarpenterNodeRole-ml")


def test_another_subnet_of_a_zone_replaces_the_pools_that_name_the_zone() -> None:
    def plan(zones: tuple[str, ...], **subnets: str) -> EnvironmentPlan:
        named = {zone.replace("_", "-"): subnet for zone, subnet in subnets.items()}
        return eks(dataclasses.replace(EKS, subnets=named), zones=zones)

    here = ("us-east-2a",)
    one, other = {"us_east_2a": "subnet-1"}, {"us_east_2a": "subnet-2"}
    assert what(plan(here, **one), plan(here, **other)) == (
        "replaced",
        ["cluster.create.network.subnets or cluster.subnets"],
    )
    assert changes(plan(here, **one), plan(here, **one, us_east_2b="subnet-3")) == ()
    assert changes(plan((), **one), plan((), **other)) == (), "the nodes stay in the subnets they were created in"
    assert changes(plan(here), plan(here, **one)) == (), "the zone's subnet was looked up"


def test_a_node_range_of_gke_may_grow_and_nothing_else() -> None:
    def plan(cidr: str) -> EnvironmentPlan:
        return gke(dataclasses.replace(GKE, create=filled(CreateGkePlan, nodes_cidr=cidr, existing_vpc=None)))

    assert changes(plan("10.0.0.0/20"), plan("10.0.0.0/18")) == ()
    for other in ("10.0.0.0/22", "10.2.0.0/20"):
        assert what(plan("10.0.0.0/20"), plan(other)) == ("replaced", ["cluster.create.nodes_cidr"])


CREATED = dataclasses.replace(EKS, kubernetes="1.35", create=filled(CreateEksPlan))


def of_version(kubernetes: str, cluster: EksClusterPlan = CREATED, **fields: Any) -> EnvironmentPlan:
    upgraded = dataclasses.replace(cluster, kubernetes=kubernetes)
    return on_cloud(environment({"train": 4}), upgraded, train=dataclasses.replace(KARPENTER, **fields))


def test_an_upgrade_rolls_karpenter_nodes_with_an_aws_image() -> None:
    alias = {"amiSelectorTerms": [{"alias": "al2023@v20260714"}]}
    assert what(of_version("1.35", node_class=alias), of_version("1.36", node_class=alias)) == (
        "rolled",
        ["cluster.kubernetes"],
    )


def test_an_upgrade_keeps_karpenter_nodes_with_a_custom_image() -> None:
    own = {"amiSelectorTerms": [{"id": "ami-0a1b2c3d4e5f60718"}]}
    assert changes(of_version("1.35", node_class=own), of_version("1.36", node_class=own)) == ()


def test_an_owners_upgrade_has_already_rolled_karpenters_nodes() -> None:
    alias = {"amiSelectorTerms": [{"alias": "al2023@v20260714"}]}
    before, after = (of_version(one, EKS, node_class=alias) for one in ("1.35", "1.36"))
    assert changes(before, after) == ()
