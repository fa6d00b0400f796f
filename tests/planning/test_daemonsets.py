"""The requests of a plan's DaemonSets are subtracted one by one from the capacity of the nodes."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from extensions.capacity.scheduling.nodes import planned_nodes
from gpu_platform.base.errors import BadInput
from gpu_platform.base.quantity import parse_quantity
from gpu_platform.catalog import load_catalog
from gpu_platform.planning.clouds.daemonsets import most_of
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.pools.free import free_node, free_of_machine, free_resources
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.queues.limits import is_cpu_flavor
from gpu_platform.stack.loaded import load_stack, plan_platform
from tests.support.eks_stacks import CREATED

CATALOG = load_catalog()
GKE: dict[str, Any] = {
    "provider": "gke", "name": "ml", "project": "my-project", "location": "us-central1", "create": {},
}  # fmt: skip
EKS: dict[str, Any] = {**CREATED, "kubernetes": "1.35"}
SHIPPED = ["dev", "eks-monitoring", "eks-training", "gke-monitoring", "gke-training", "local"]


def environment(stack: str) -> EnvironmentPlan:
    plan = load_stack(stack).plan
    assert plan.kind == "environment"
    return plan


def planned(cluster: dict[str, Any], pool: dict[str, Any], **rest: Any) -> EnvironmentPlan:
    platform = {
        "kind": "environment",
        "cluster": cluster,
        "pools": [{"name": "one", "count": {"desired": 1}, "workload": "inference", **pool}],
        "teams": [],
        **rest,
    }
    plan = plan_platform(platform, "shop")
    assert plan.kind == "environment"
    return plan


def taken(pool: PoolPlan) -> tuple[int, int]:
    free = free_resources(pool)
    return pool.cpu_millicores - free.cpu_millicores, pool.memory_mib - free.memory_mib - pool.huge_pages_mib


def test_gpudirect_installers_are_counted_on_the_nodes_that_run_them() -> None:
    """The expected sum consists of 344m for GKE, 150m each for the driver, the plugin and the device injector, 50m
    for the node agent, and a reserve of 100m.
    """
    train, serve = environment("gke-training").pools[:2]
    assert (train.machine_type, serve.machine_type) == ("a3-megagpu-8g", "g2-standard-48")
    assert taken(train) == (344 + 3 * 150 + 50 + 100, 596 + 3 * 64 + 64 + 130)
    assert taken(serve) == (344 + 150 + 50 + 100, 596 + 64 + 64 + 130)


def test_a_pod_that_leaves_no_cpu_for_the_installers_is_refused() -> None:
    """On an A3 Mega node, the DaemonSets request 944m of CPU, so a pod that leaves only 500m does not fit."""
    pool = environment("gke-training").pools[0]
    pods = {"name": "exact", "pool": "train", "gpus": 8, "memory": "1Gi"}
    stack: Any = load_stack("gke-training").platform
    team = {**stack["teams"][0], "workloads": [{**pods, "cpu": f"{pool.cpu_millicores - 500}m"}]}
    with pytest.raises(BadInput, match=f"at most {pool.cpu_millicores - 944}m, because DaemonSets leave no more"):
        plan_platform({**stack, "teams": [team, *stack["teams"][1:]]}, "shop")


def test_volume_drivers_take_memory_only_with_a_matching_class() -> None:
    pool = {"machine_type": "g6.xlarge", "zones": ["us-east-2a"]}
    without = taken(planned(EKS, pool).pools[0])
    with_lustre = taken(planned(EKS, pool, storage={"scratch": {"type": "lustre"}}).pools[0])
    assert without == (50 + 100 + 30 + 10 + 50 + 100, 120 + 30 + 64 + 130)
    assert with_lustre == (without[0] + 30, without[1] + 104)


def test_nodes_of_the_sandbox_run_the_node_agent_alone() -> None:
    assert {taken(pool) for pool in environment("local").pools} == {(50, 64)}


def pools() -> Iterator[PoolPlan]:
    """Yield the cloud pools of shipped stacks, except for Karpenter pools, because Karpenter estimates the
    capacity itself.
    """
    for stack in SHIPPED:
        for pool in environment(stack).pools:
            if pool.cloud_nodes.platform not in (None, "karpenter"):
                yield pool


def test_a_machine_type_promises_no_more_than_its_pools_have() -> None:
    """Suggestions are computed from machine types, so their pods must also fit the resulting pools."""
    for pool in pools():
        least = free_of_machine(CATALOG.machine_types[pool.machine_type], huge_pages_mib=pool.huge_pages_mib)
        assert all(a <= b for a, b in zip(least, free_node(pool, CATALOG), strict=True)), (
            pool.name,
            least,
            free_node(pool, CATALOG),
        )


def test_a_queue_starts_only_the_free_cpu_and_memory_of_its_nodes() -> None:
    """The quotas of the plan's two teams add up to all GPUs of a pool."""
    team = {"quota": {"gpus": 8}, "priority": "training", "members": ["group:a@example.com"]}
    plan = planned(
        EKS,
        {
            "machine_type": "p4de.24xlarge",
            "workload": "training",
            "zones": ["us-east-2a"],
            "count": {"desired": 2},
        },
        teams=[{**team, "name": "vision"}, {**team, "name": "search"}],
        queueing={},
    )
    (pool,) = plan.pools
    assert plan.queues is not None
    nominal: dict[str, Decimal] = {}
    for queue in plan.queues.teams:
        for flavor in queue.flavors:
            for limit in flavor.limits if not is_cpu_flavor(flavor.flavor) else ():
                nominal[limit.resource] = nominal.get(limit.resource, Decimal(0)) + parse_quantity(limit.nominal)
    free = free_resources(pool)
    assert nominal["nvidia.com/gpu"] == 16
    assert 2 * (free.cpu_millicores - 1) <= nominal["cpu"] * 1000 <= 2 * free.cpu_millicores
    assert nominal["memory"] <= 2 * free.memory_mib * 2**20


@pytest.mark.parametrize(("name", "most"), [("g6.4xlarge", 110), ("g5.12xlarge", 250), ("g4dn.xlarge", 29)])
def test_a_node_has_room_for_no_more_pods_than_eks_lets_its_kubelet_run(name: str, most: int) -> None:
    """EKS caps `maxPods` of managed nodes at 110 (250 with 30 or more vCPUs), whatever the interfaces allow."""
    machine = CATALOG.machine_types[name]
    assert free_of_machine(machine).pods == most - sum(one.pods for one in most_of(machine))


def test_nodes_of_the_simulated_scheduler_have_the_memory_that_daemonsets_leave() -> None:
    plan = environment("local")
    pool = plan.pools[0]
    left = free_node(pool, CATALOG).memory_mib
    assert planned_nodes(plan, CATALOG)[0].allocatable["memory"] == parse_quantity(f"{left}Mi")
