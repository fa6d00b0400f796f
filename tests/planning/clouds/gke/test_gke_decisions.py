"""Tables of decisions for a GKE pool, and a search for pool settings that result in an inconsistent plan."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import MachineType, load_catalog
from gpu_platform.planning.clouds.gke.cloud_nodes import node_pool_nodes
from gpu_platform.planning.clouds.gke.node import local_ssd_count
from gpu_platform.planning.clouds.gke.plan import CompactPlacement, GkePoolPlan, UpgradeSettings
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.stack.loaded import plan_platform
from tests.support.size import size
from tests.support.sold import sold

A, B, C = (f"us-central1-{letter}" for letter in "abc")
CATALOG = load_catalog()
GCP = {name: one for name, one in CATALOG.machine_types.items() if one.vendor == "gcp" and one.has_gpus}
RESERVED = {"type": "reservation", "reservation": "h100", "zone": A}
FLEX = {"type": "flex-start"}
GROW = {"desired": 0, "max": 8}
COMPACT = {"type": "compact"}


def platform(pool: dict[str, Any], **cluster: Any) -> dict[str, Any]:
    filled = {"name": "train", "machine_type": "a3-megagpu-8g", "count": {"desired": 2}, "zones": [A]}
    said = sold({"workload": "training", **filled, **pool})
    base = {"provider": "gke", "name": "ml", "project": "my-project", "location": "us-central1"}
    return {
        "kind": "environment",
        "cluster": {**base, **cluster},
        "pools": [{key: value for key, value in said.items() if value is not None}],
    }


def planned(pool: dict[str, Any], **cluster: Any) -> PoolPlan:
    plan = plan_platform(platform(pool, **cluster), "test")
    assert isinstance(plan, EnvironmentPlan)
    return plan.pools[0]


def decided(**pool: Any) -> GkePoolPlan:
    cloud = planned(pool).cloud
    assert isinstance(cloud, GkePoolPlan)
    return cloud


@pytest.mark.parametrize(
    ("said", "policy"),
    [
        ({}, "train-compact"),
        ({"machine_type": "a3-highgpu-8g", "image": {"release": "1.33.5-gke.2392000"}}, "train-compact"),
        ({"machine_type": "a3-ultragpu-8g", "capacity": {"type": "spot"}}, "train-compact"),
        ({"machine_type": "a4-highgpu-8g", "capacity": FLEX, "count": GROW}, "train-compact"),
        # Pools without compact placement by default.
        ({"count": {"desired": 1}}, None),
        ({"workload": "inference"}, None),
        ({"workload": "development"}, None),
        ({"zones": [A, B]}, None),
        ({"capacity": RESERVED}, None),
        ({"network": {"rdma": False}}, None),
        ({"machine_type": "a2-highgpu-8g"}, None),
        ({"machine_type": "a3-highgpu-4g"}, None),
        ({"capacity": FLEX, "count": GROW}, None),
        ({"machine_type": "a4-highgpu-8g", "capacity": {**FLEX, "queued": True}, "count": GROW}, None),
        # Pools whose placement the stack file sets.
        ({"placement": {"type": "none"}}, None),
        ({"machine_type": "a2-highgpu-8g", "placement": {"type": "compact"}}, "train-compact"),
        ({"capacity": RESERVED, "placement": {"type": "compact"}}, "train-compact"),
        ({"count": {"desired": 1, "max": 2}}, "train-compact"),
    ],
)
def test_compact_placement_is_decided_by_work_machine_capacity_and_zones(
    said: dict[str, Any], policy: str | None
) -> None:
    expected = None if policy is None else CompactPlacement(policy=policy, create=True)
    assert decided(**said).placement == expected


@pytest.mark.parametrize(("said", "placement"), [({}, "compact"), ({"workload": "inference"}, "none")])
def test_the_plan_of_a_pool_names_the_placement_that_was_decided(said: dict[str, Any], placement: str) -> None:
    assert planned(said).placement == placement


def test_an_ai_zone_of_the_region_has_the_nodes_of_its_reservation() -> None:
    reserved = {"type": "reservation", "reservation": "b200-a", "zone": "us-central1-ai1a"}
    assert decided(machine_type="a4-highgpu-8g", zones=None, capacity=reserved).node_locations == (
        "us-central1-ai1a",
    )


@pytest.mark.parametrize(("machine", "topology"), [("a3-megagpu-8g", None), ("a4x-highgpu-4g", "1x72")])
def test_an_existing_policy_is_used_by_its_name_and_not_created(machine: str, topology: str | None) -> None:
    said = {"machine_type": machine, "capacity": RESERVED, "placement": {"type": "compact", "group": "rack-7"}}
    assert decided(**said).placement == CompactPlacement(policy="rack-7", create=False, topology=topology)


@pytest.mark.parametrize("workload", ["training", "inference", "development"])
def test_each_rack_has_a_workload_policy_for_its_nvlink_domain(workload: str) -> None:
    placed = decided(machine_type="a4x-highgpu-4g", capacity=RESERVED, workload=workload).placement
    assert placed == CompactPlacement(policy="train-nvlink", create=True, topology="1x72")


@pytest.mark.parametrize(
    ("said", "upgrade"),
    [
        ({"workload": "inference"}, ("SURGE", 1, 0)),
        ({}, ("SURGE", 0, 1)),
        ({"capacity": RESERVED}, ("SURGE", 0, 1)),
        ({"workload": "inference", "capacity": {"type": "spot"}}, ("SURGE", 1, 0)),
        ({"workload": "inference", "upgrade": {"max_surge": 3}}, ("SURGE", 3, 0)),
        ({"workload": "inference", "upgrade": {"max_surge": 0}}, ("SURGE", 0, 1)),
        ({"workload": "inference", "upgrade": {"max_unavailable": 2}}, ("SURGE", 1, 2)),
        ({"upgrade": {"max_unavailable": 2}}, ("SURGE", 0, 2)),
        ({"capacity": RESERVED, "upgrade": {"max_surge": 1}}, ("SURGE", 1, 0)),
        ({"workload": "inference", "upgrade": {"strategy": "blue-green"}}, ("BLUE_GREEN", None, None)),
    ],
)
def test_upgrades_do_not_surge_on_scarce_capacity(
    said: dict[str, Any], upgrade: tuple[Any, int | None, int | None]
) -> None:
    strategy, surge, unavailable = upgrade
    assert decided(**said).upgrade == UpgradeSettings(
        strategy=strategy, max_surge=surge, max_unavailable=unavailable
    )


@pytest.mark.parametrize("capacity", [FLEX, {**FLEX, "queued": True}], ids=["flex-start", "queued"])
@pytest.mark.parametrize("upgrade", [{}, {"max_unavailable": 2}, {"max_surge": 0}])
def test_flex_start_nodes_have_the_upgrades_of_gke(capacity: dict[str, Any], upgrade: dict[str, Any]) -> None:
    plan = decided(capacity=capacity, count=GROW, upgrade=upgrade)
    assert plan.upgrade is None
    assert plan.surge == 0
    assert node_pool_nodes(plan, CATALOG).keeps_version


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"count": {"desired": 4}}, (False, 4, (A,))),
        ({"count": {"desired": 4}, "zones": [A, B]}, (False, 2, (A, B))),
        ({"count": {"min": 4, "desired": 4, "max": 4}}, (False, 4, (A,))),
        ({"count": {"desired": 4, "max": 4}}, (True, 4, (A,))),
        ({"count": {"min": 1, "desired": 3}, "zones": [A, B, C]}, (True, 1, (A, B, C))),
        ({"count": {"desired": 0, "max": 4}, "zones": None}, (True, 0, (A, B, C))),
        ({"count": {"desired": 2}, "capacity": RESERVED, "zones": None}, (False, 2, (A,))),
        ({"count": GROW, "capacity": FLEX}, (True, None, (A,))),
    ],
)
def test_a_count_with_desired_alone_is_fixed_and_nodes_are_counted_by_zone(
    said: dict[str, Any], expected: tuple[bool, int | None, tuple[str, ...]]
) -> None:
    plan = decided(**said)
    assert (plan.autoscaled, plan.nodes_per_location, plan.node_locations) == expected


@pytest.mark.parametrize(
    ("machine", "region", "zones"),
    [
        ("a3-megagpu-8g", "us-east5", ("us-east5-a",)),
        ("a2-ultragpu-1g", "us-east5", ("us-east5-a", "us-east5-b")),
        ("n2-standard-8", "us-east5", ()),
    ],
)
def test_unset_zones_are_those_that_offer_the_machine_type(
    machine: str, region: str, zones: tuple[str, ...]
) -> None:
    said = {"machine_type": machine, "zones": None, "workload": "general", "count": GROW}
    said |= {"workload": "training"} if zones else {}
    plan = planned({**said, "capacity": {"type": "spot"}}, location=region).cloud
    assert isinstance(plan, GkePoolPlan)
    assert plan.node_locations == zones
    assert plan.placement is None  # a change to the list of zones does not replace nodes


@pytest.mark.parametrize(
    ("parts", "value"),
    [
        ({}, "h100"),
        ({"block": "b"}, "h100/reservationBlocks/b"),
        ({"block": "b", "sub_block": "s"}, "h100/reservationBlocks/b/reservationSubBlocks/s"),
    ],
)
def test_a_reservation_is_named_with_its_block_and_sub_block(parts: dict[str, str], value: str) -> None:
    affinity = decided(capacity={**RESERVED, **parts}).reservation
    assert affinity.values == (f"projects/my-project/reservations/{value}",)


LOCAL_SSDS = {
    "a2-ultragpu-1g": 1, "a2-ultragpu-2g": 2, "a2-ultragpu-4g": 4, "a2-ultragpu-8g": 8,
    "a3-highgpu-1g": 2, "a3-highgpu-2g": 4, "a3-highgpu-4g": 8, "a3-highgpu-8g": 16,
    "a3-megagpu-8g": 16, "a3-ultragpu-8g": 32, "a4-highgpu-8g": 32, "a4x-highgpu-4g": 4,
}  # fmt: skip
"""The number of local SSDs that each machine type includes. Machine types that are not listed include none.

Source: Compute Engine docs, About Local SSD disks.
"""


@pytest.mark.parametrize("machine", sorted(GCP))
def test_a_node_has_as_many_local_ssds_as_its_machine_type(machine: str) -> None:
    assert local_ssd_count(GCP[machine]) == LOCAL_SSDS.get(machine, 0)


@pytest.mark.parametrize(
    ("said", "network", "fabric", "joined"),
    [
        ({}, "networks", "tcpxo", 8),
        ({"machine_type": "a3-highgpu-8g", "image": {"release": "1.33.5-gke.2392000"}}, "networks", "tcpx", 4),
        ({"machine_type": "a3-ultragpu-8g"}, "profile", "rdma", 0),
        ({"machine_type": "a4-highgpu-8g"}, "profile", "rdma", 0),
        ({"machine_type": "a4-highgpu-8g", "network": {"via": "networks"}}, "networks", "rdma", 9),
        ({"workload": "inference"}, "none", "none", 0),
        ({"workload": "inference", "network": {"rdma": True}}, "networks", "tcpxo", 8),
        ({"network": {"rdma": False}}, "none", "none", 0),
        ({"machine_type": "a2-highgpu-8g"}, "none", "none", 0),
        ({"machine_type": "g2-standard-4"}, "none", "none", 0),
    ],
)
def test_gpu_nics_join_networks_or_the_profile_for_training(
    said: dict[str, Any], network: str, fabric: str, joined: int
) -> None:
    plan = decided(**said)
    assert (plan.network, plan.fabric, plan.gpu_networks) == (network, fabric, joined)


@pytest.mark.parametrize(
    ("said", "policy"),
    [
        ({"workload": "inference"}, "BALANCED"),
        ({"capacity": {"type": "spot"}}, "ANY"),
        ({"capacity": RESERVED}, "ANY"),
        ({"capacity": FLEX, "count": GROW}, "ANY"),
    ],
)
def test_the_autoscaler_uses_scarce_or_paid_capacity_in_any_zone(said: dict[str, Any], policy: str) -> None:
    assert decided(**said).location_policy == policy


@pytest.mark.parametrize(
    ("seconds", "duration"), [(7 * 86400, None), (7 * 86400, "168h"), (3600, "1h"), (5400, "1h30m")]
)
def test_flex_start_nodes_live_as_long_as_the_stack_says_or_seven_days(seconds: int, duration: str | None) -> None:
    capacity = FLEX if duration is None else {**FLEX, "max_run_duration": duration}
    assert decided(capacity=capacity, count=GROW).max_run_duration_seconds == seconds


def test_a_teams_workload_tolerates_what_gke_taints_by_itself() -> None:
    said = platform({"capacity": {**FLEX, "queued": True}, "count": GROW, "machine_type": "a4-highgpu-8g"})
    team = {
        "name": "vision",
        "priority": "training",
        "members": ["group:vision@example.com"],
        "workloads": [{"name": "job", "pool": "train"}],
    }
    queued = {**team, "quota": {"gpus": 8, "cpu": 200, "memory": "3Ti"}}
    plan = plan_platform({**said, "teams": [queued], "queueing": {}}, "test")
    (workload,) = plan.teams[0].workloads
    assert [(taint.key, taint.value) for taint in workload.tolerations] == [
        ("nvidia.com/gpu", "present"),
        ("cloud.google.com/gke-queued", "true"),
    ]


def test_every_machine_type_of_google_cloud_has_an_accelerator_label_and_a_family() -> None:
    assert GCP
    for machine in GCP.values():
        assert machine.accelerator_label
        assert CATALOG.gcp_family(machine).boot_disk_types
        assert machine.local_nvme_gb % 375 == 0


def test_every_choice_is_a_decision_with_its_reason() -> None:
    plan = plan_platform(platform({"count": {"desired": 2, "max": 4}}), "test")
    said = {d.what: (d.chosen, d.why) for d in plan.decisions if d.subject == "pool train"}
    assert said["placement"][0] == "compact, train-compact"
    assert said["GPU NICs"][0] == "8 networks (tcpxo)"
    assert said["upgrade"] == ("surge 0, unavailable 1", "no capacity for another node")
    assert said["autoscaler"][0] == "0 to 4 nodes, BALANCED"
    assert all(why for _, why in said.values())


@pytest.mark.parametrize(
    ("said", "warned"),
    [
        ({"capacity": RESERVED, "zones": None, "placement": COMPACT}, True),
        ({"capacity": RESERVED, "zones": None, "placement": {**COMPACT, "group": "its-own"}}, False),
        ({"placement": COMPACT}, False),
    ],
)
def test_a_created_policy_requires_a_dense_reservation(said: dict[str, Any], warned: bool) -> None:
    plan = plan_platform(platform(said), "test")
    (why,) = [d.why for d in plan.decisions if (d.subject, d.what) == ("pool train", "placement")]
    assert ("support only their own placement policy" in why) is warned


CAPACITIES = st.sampled_from(
    [
        *[{"type": "on-demand"}] * 3,
        {"type": "spot"},
        RESERVED,
        {**RESERVED, "project": "other-project", "block": "b-1"},
        FLEX,
        {**FLEX, "queued": True},
        {"type": "capacity-block", "reservation": "cr-0a1b", "zone": A},
    ]
)


def seldom(*values: Any) -> st.SearchStrategy[Any]:
    """Draw a value for a field. Most draws are None, because each field that is set can make the pool invalid."""
    return st.sampled_from([None] * (8 * len(values)) + list(values))


def sharings(machine: MachineType) -> st.SearchStrategy[Any]:
    """Draw a sharing configuration, including MIG layouts of the machine type's GPU model and of other models."""
    mig = CATALOG.gpu_of(machine).mig
    cut = [{"mode": "mig", "layout": {p.name: p.max_instances}} for p in (mig.profiles if mig else ())]
    legal = [{"mode": "time-slicing", "replicas": 4}, {"mode": "mps", "replicas": 2}, *cut]
    odd = [
        {"mode": "mig", "layout": {"1g.10gb": 7}, "strategy": "single"},
        {"mode": "mig", "layout": {"3g.40gb": 1, "1g.10gb": 3}},
        {"mode": "mig", "layouts": [{"devices": [0], "layout": {"1g.18gb": 7}}]},
    ]
    return st.sampled_from([*[None] * 12, *legal, *odd])


@st.composite
def pools(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a pool. Enough pools are valid to cover both outcomes of every rule."""
    with_nics = [name for name, machine in GCP.items() if machine.rdma_interfaces]
    machine = draw(st.sampled_from([*sorted(GCP), *with_nics * 4]))
    capacity = draw(CAPACITIES)
    counts = [{"desired": 1}, {"desired": 2}, {"desired": 6}, {"min": 0, "desired": 2, "max": 8}]
    flex = capacity["type"] == "flex-start"
    return {
        "machine_type": machine,
        "workload": draw(st.sampled_from(["training", "inference", "development"])),
        "capacity": capacity,
        "count": draw(st.sampled_from([*[GROW] * 6, *counts] if flex else [*counts * 2, GROW])),
        "zones": draw(st.sampled_from([*[[A]] * 8, None, [B], [A, B], [A, B, C], [A, A], ["us-east1-b"]])),
        "placement": draw(
            seldom({"type": "none"}, COMPACT, COMPACT, {**COMPACT, "group": "g"}, {"type": "cluster"})
        ),
        "upgrade": draw(
            seldom({"strategy": "blue-green"}, {"max_surge": 2}, {"max_surge": 0, "max_unavailable": 0})
        ),
        "network": draw(seldom({"rdma": True}, {"rdma": False}, {"via": "networks"}, {"via": "profile"})),
        "sharing": draw(sharings(GCP[machine])),
        "device_plugin": draw(st.sampled_from([None, "operator", "provider"])),
        "image": draw(seldom({"family": "cos"}, {"family": "ubuntu"})),
        "repair": draw(seldom(True, False)),
        "local_nvme": draw(seldom(False)),
    }


@settings(max_examples=size(50, 2000))
@given(pool=pools(), location=st.sampled_from(["us-central1", A]))
def test_any_pool_is_refused_with_a_reason_or_whole(pool: dict[str, Any], location: str) -> None:
    try:
        plan = planned(pool, location=location)
    except BadInput as error:
        unexplained = [p for p in error.problems if not (p.path and p.found and p.allowed and p.fix)]
        assert unexplained == []
        return
    cloud = plan.cloud
    assert isinstance(cloud, GkePoolPlan)
    machine = GCP[pool["machine_type"]]
    family = CATALOG.gcp_family(machine)
    one_zone = len(cloud.node_locations) == 1
    # capacity
    reserved = cloud.reservation.type == "SPECIFIC_RESERVATION"
    assert reserved == (pool["capacity"]["type"] == "reservation") == bool(cloud.reservation.values)
    assert sum((cloud.spot, cloud.flex_start, reserved)) <= 1
    assert not reserved or one_zone
    assert len(set(cloud.node_locations)) == len(cloud.node_locations)
    assert all(zone.startswith("us-central1-") for zone in cloud.node_locations)
    # counts
    assert (cloud.nodes_per_location is None) == cloud.flex_start
    assert cloud.autoscaled or cloud.nodes_per_location is not None
    if cloud.nodes_per_location:
        assert cloud.nodes_per_location * len(cloud.node_locations) == plan.nodes.desired
    assert cloud.min_nodes <= plan.nodes.desired <= cloud.max_nodes
    # flex-start
    if cloud.flex_start:
        assert cloud.autoscaled
        assert not cloud.auto_repair
        assert (cloud.min_nodes, plan.nodes.desired) == (0, 0)
        assert 0 < (cloud.max_run_duration_seconds or 0) <= 7 * 86400
    else:
        assert not cloud.queued_provisioning
        assert cloud.max_run_duration_seconds is None
    # placement
    if cloud.placement is not None:
        assert one_zone
        assert cloud.upgrade is None or (cloud.upgrade.strategy, cloud.upgrade.max_surge) == ("SURGE", 0)
        assert not cloud.queued_provisioning
        assert not cloud.flex_start or family.compact_with_flex_start
        domain = family.nvlink_domain
        assert cloud.placement.topology == (domain.topology if domain is not None else None)
        assert cloud.delete_before_replace
    # upgrades
    assert (cloud.upgrade is None) == cloud.flex_start
    if cloud.upgrade is not None and cloud.upgrade.strategy == "SURGE":
        assert cloud.upgrade.max_surge is not None
        assert cloud.upgrade.max_unavailable is not None
        assert 0 < cloud.upgrade.max_surge + cloud.upgrade.max_unavailable <= 20
    elif cloud.upgrade is not None:
        assert (cloud.upgrade.max_surge, cloud.upgrade.max_unavailable) == (None, None)
        assert not reserved
    # The pool has the accelerator of its machine type.
    gpus = cloud.accelerator
    assert gpus is not None
    assert (gpus.type, gpus.count) == (machine.accelerator_label, machine.gpu_count)
    theirs = gpus.driver_version == "DEFAULT"
    assert theirs == (pool["device_plugin"] == "provider")
    assert theirs != (cloud.labels.get("gke-no-default-nvidia-gpu-device-plugin") == "true")
    assert theirs or (gpus.sharing_strategy, gpus.partition_size) == (None, None)
    assert (gpus.sharing_strategy is None) == (gpus.max_shared_clients is None)
    assert gpus.sharing_strategy is None or gpus.partition_size is None
    if theirs:
        assert {offer.name for offer in plan.resources} == {"nvidia.com/gpu"}
        assert not {"nvidia.com/device-plugin.config", "nvidia.com/mig.config"} & cloud.labels.keys()
    # network
    nics = machine.rdma_interfaces
    assert cloud.network == "none" or nics > 0
    assert (cloud.gpu_networks > 0) == (cloud.network == "networks")
    assert cloud.network == "none" or cloud.image_type == "COS_CONTAINERD"
    assert (cloud.fabric == "none") == (cloud.network == "none")
    dra = cloud.labels.get("cloud.google.com/gke-networking-dra-driver") == "true"
    assert dra == (cloud.network == "profile")
    # node
    assert cloud.local_ssd_count * (machine.local_disk_gb or 375) == machine.local_nvme_gb
    assert cloud.disk_type in family.boot_disk_types
    assert cloud.taints[0].effect == "NO_SCHEDULE"
    assert not cloud.secure_boot or cloud.image_type == "COS_CONTAINERD"


def test_a_machine_without_local_ssds_has_none_and_the_same_gpu_nics() -> None:
    without, with_them = decided(machine_type="a3-megagpu-8g-nolssd"), decided(machine_type="a3-megagpu-8g")
    assert (without.local_ssd_count, with_them.local_ssd_count) == (0, 16)
    assert without.accelerator == with_them.accelerator
    assert without.gpu_networks == with_them.gpu_networks


@pytest.mark.parametrize(
    ("gpus", "priority", "said"), [(17, "training", True), (16, "training", False), (17, "inference", False)]
)
def test_a_quota_that_only_shares_for_other_work_could_hold_is_a_warning(
    gpus: int, priority: str, said: bool
) -> None:
    document = platform({"machine_type": "a3-highgpu-8g"})
    document["pools"].append(
        {
            "name": "serve",
            "machine_type": "g2-standard-48",
            "count": {"min": 0, "desired": 0, "max": 4},
            "workload": "inference",
            "sharing": {"mode": "time-slicing", "replicas": 4},
            "device_plugin": "provider",
        }
    )
    members = ["group:ml@example.com"]
    document["teams"] = [{"name": "ml", "quota": {"gpus": gpus}, "priority": priority, "members": members}]
    found = [one for one in plan_platform(document, "test").decisions if one.what == "warning: quota"]
    assert bool(found) is said
    if found:
        assert found[0].chosen == "17 nvidia.com/gpu (ml 17)"
        assert "the pools for the work of these teams (train) have at most 16" in found[0].why
