"""Any EKS pool in a stack file is either refused or results in a consistent node group."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from gpu_platform.catalog import MachineType, load_catalog
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan
from gpu_platform.planning.nodes.allocatable import EVICTION_MIB, kube_reserved
from gpu_platform.planning.pools.pools import plan_pool
from gpu_platform.stack.pool import CapacityBlock, FlexStart, Pool, Reservation, Spot
from tests.planning.clouds.eks.eks_pools import AMI, BLOCK, RESERVATION, context_and_share, eks, pool, problems_of
from tests.support.size import size

CATALOG = load_catalog()
MACHINES = [machine for machine in CATALOG.machine_types.values() if machine.vendor == "aws" and machine.gpu]
ZONES = st.sampled_from(["us-east-2a"] * 8 + ["us-east-2b", "us-west-2a"])
NOTHING: dict[str, Any] = {}


def field(name: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw no field, or a field with one of the values, because most stack files omit such fields."""
    return st.just(NOTHING) | values.map(lambda value: {name: value})


COUNTS = st.tuples(st.integers(0, 4), st.integers(0, 4)).map(
    lambda pair: {"desired": min(pair), "max": max(pair)}
) | st.integers(0, 4).map(lambda count: {"desired": count})
ENDS = field("ends", st.just("2026-12-14T11:30:00Z"))
NEEDED = field("needed_until", st.sampled_from(["2026-12-14T10:00:00Z", "2026-12-14T11:00:00Z"]))
RESERVED = st.builds(
    lambda zone, group: {**RESERVATION, "zone": zone, **group}, ZONES, field("placement_group", st.just("rack-7"))
)
BLOCKS = st.builds(lambda zone, ends, needed: {**BLOCK, "zone": zone, **ends, **needed}, ZONES, ENDS, NEEDED)
CAPACITIES = st.one_of(
    st.sampled_from([{"type": "on-demand"}, {"type": "spot"}, {"type": "spot"}, {"type": "flex-start"}]),
    RESERVED,
    RESERVED,
    BLOCKS,
)
PLACEMENTS = st.builds(
    lambda kind, group: {"type": kind, **group},
    st.sampled_from(["none", "cluster", "cluster", "compact"]),
    field("group", st.sampled_from(["rack-7", "rack-8"])),
)
NETWORKS = st.builds(
    lambda *parts: {key: value for part in parts for key, value in part.items()},
    field("rdma", st.booleans()),
    field("layout", st.sampled_from(["ena-and-efa", "efa-primary"])),
    field("via", st.sampled_from([None, None, "networks"])),
)
TOPOLOGIES = st.fixed_dictionaries(
    {
        "policy": st.sampled_from(["none", "best-effort", "restricted", "single-numa-node"]),
        "memory": st.sampled_from(["none", "static"]),
    }
)
IMAGES = st.sampled_from(
    [
        {"family": "al2023"},
        {"family": "bottlerocket"},
        {"family": "bottlerocket"},
        {"ami": AMI},
        {"ami": AMI, "driver": "595.71.05"},
        {"family": "bottlerocket", "ami": AMI},
        {"family": "cos"},
    ]
)


@st.composite
def pools(draw: st.DrawFn) -> Pool:
    # Draw the family first, because most machine types are small and have no EFA.
    families = sorted({machine.name.partition(".")[0] for machine in MACHINES})
    family = draw(st.sampled_from(families))
    machine = draw(st.sampled_from([one for one in MACHINES if one.name.partition(".")[0] == family]))
    said: dict[str, Any] = {
        "machine_type": machine.name,
        "count": draw(COUNTS),
        "workload": draw(st.sampled_from(["training", "inference", "development"])),
        "local_nvme": draw(st.booleans()),
    }
    for part in (
        field("capacity", CAPACITIES),
        field("placement", PLACEMENTS),
        st.just({"zones": ["us-east-2a"]}) | field("zones", st.lists(ZONES, min_size=1, max_size=2)),
        field("network", NETWORKS),
        field("topology", TOPOLOGIES),
        field("image", IMAGES),
        field("disk", st.sampled_from([{"type": "io2"}, {"type": "io2"}, {"type": "pd-ssd"}])),
        field("repair", st.booleans()),
    ):
        said |= draw(part)
    return pool(**said)


@settings(max_examples=size(50, 2500))
@given(pools())
def test_no_combination_yields_an_inconsistent_node_group(spec: Pool) -> None:
    cluster = eks()
    if problems_of(spec, cluster):
        event("refused")
        return
    event("planned")
    pool_plan = plan_pool(*context_and_share(spec, cluster, "pools[0]")).value
    plan, machine = pool_plan.cloud, CATALOG.machine_types[spec.machine_type]
    assert isinstance(plan, EksPoolPlan)
    check_interfaces(spec, machine, plan)
    check_placement(spec, plan)
    check_capacity(spec, plan)
    check_user_data(machine, plan)
    assert plan.min_size <= plan.desired_size <= plan.max_size
    assert plan.max_size >= 1
    assert plan.max_unavailable >= 1
    assert 1 <= plan.metadata_hop_limit <= 2
    assert (plan.ami is not None) == (plan.ami_type == "CUSTOM")
    assert all(one.volume_type in ("gp3", "io2") for one in plan.block_devices)
    assert all((one.iops is not None) == (one.volume_type == "io2") for one in plan.block_devices)
    assert len({one.device_name for one in plan.block_devices}) == len(plan.block_devices)


def check_interfaces(spec: Pool, machine: MachineType, plan: EksPoolPlan) -> None:
    family = CATALOG.aws_family(machine)
    places = [(one.network_card_index, one.device_index) for one in plan.interfaces]
    assert len(set(places)) == len(places)
    efa = [one for one in plan.interfaces if one.interface_type != "interface"]
    cards = {one.network_card_index for one in efa}
    assert len(cards) == len(efa), "one EFA interface per card"
    assert len(efa) == (machine.rdma_interfaces if plan.efa else 0)
    consecutive = range(family.first_efa_card + machine.rdma_interfaces)
    assert cards <= set(family.efa_cards or consecutive)
    assert family.first_efa_card == 0 or 0 not in cards
    assert ("vpc.amazonaws.com/efa.present" in plan.labels) == plan.efa
    if plan.efa:
        (primary,) = [one for one in plan.interfaces if (one.network_card_index, one.device_index) == (0, 0)]
        assert primary.interface_type != "efa-only", "the primary interface needs an IP address"
        assert sum(one.interface_type != "efa-only" for one in plan.interfaces) == 1, (
            "other interfaces would take addresses"
        )
    else:
        assert plan.interfaces == ()
    if spec.network.rdma is False:
        assert not plan.efa


def check_placement(spec: Pool, plan: EksPoolPlan) -> None:
    if plan.placement_group is not None:
        assert len(plan.zones) == 1
        assert CATALOG.aws_family(CATALOG.machine_types[spec.machine_type]).cluster_placement
    if plan.capacity_reservation is not None:
        assert len(plan.zones) == 1
        assert plan.placement_group is None or not plan.placement_group.create
    if plan.efa and plan.max_size > 1:
        assert len(plan.zones) == 1
    assert all(zone.startswith("us-east-2") for zone in plan.zones)
    assert len(set(plan.zones)) == len(plan.zones)
    if isinstance(spec.capacity, Reservation):
        group = plan.placement_group.name if plan.placement_group else None
        assert group == spec.capacity.placement_group


def check_capacity(spec: Pool, plan: EksPoolPlan) -> None:
    assert (plan.capacity_type == "CAPACITY_BLOCK") == (plan.market_type == "capacity-block")
    assert (plan.capacity_type == "CAPACITY_BLOCK") == isinstance(spec.capacity, CapacityBlock)
    assert (plan.capacity_type == "SPOT") == isinstance(spec.capacity, Spot)
    assert not isinstance(spec.capacity, FlexStart)
    reserved = isinstance(spec.capacity, Reservation | CapacityBlock)
    assert (plan.capacity_reservation is not None) == reserved
    assert plan.capacity_reservation is None or re.fullmatch("cr-[0-9a-f]{17}", plan.capacity_reservation)
    assert plan.delete_before_replace == (plan.update_strategy == "MINIMAL") == reserved
    if isinstance(spec.capacity, CapacityBlock):
        assert plan.placement_group is None
        assert CATALOG.aws_family(CATALOG.machine_types[spec.machine_type]).capacity_blocks
        if spec.capacity.needed_until is not None and spec.capacity.ends is not None:
            assert (spec.capacity.ends - spec.capacity.needed_until).total_seconds() >= 40 * 60


def check_user_data(machine: MachineType, plan: EksPoolPlan) -> None:
    told = plan.user_data
    assert told is None or told.needs_cluster_access == (plan.ami is not None)
    assert told is not None or plan.ami is None, "nodes with a custom image cannot join without user data"
    if told is None:
        return
    nodeadm = told.format == "nodeadm"
    said = told.settings["spec"] if nodeadm else told.settings
    kubelet = said.get("kubelet", {}).get("config", {}) if nodeadm else said.get("kubernetes", {})
    topology = kubelet.get("topologyManagerPolicy" if nodeadm else "topology-manager-policy", "none")
    cpu = kubelet.get("cpuManagerPolicy" if nodeadm else "cpu-manager-policy", "none")
    memory = kubelet.get("memoryManagerPolicy" if nodeadm else "memory-manager-policy", "None")
    reserved = kubelet.get("reservedMemory" if nodeadm else "memory-manager-reserved-memory")
    assert topology == "none" or cpu == "static", (
        "a topology manager policy has no effect without the static CPU manager policy"
    )
    assert (memory == "Static") == (reserved is not None), "static memory without reservedMemory stops the kubelet"
    assert memory != "Static" or topology != "none"
    if reserved is not None:
        sizes = [one["limits"]["memory"] for one in reserved] if nodeadm else [reserved["0"]["memory"]]
        assert sizes == [f"{kube_reserved(machine).memory_mib + EVICTION_MIB}Mi"]
    if machine.local_nvme_gb == 0:
        assert "instance" not in said
        assert "bootstrap-commands" not in said
