"""Plan the system nodes of a new cluster in clouds where all of them have one machine type (GKE and AKS)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from gpu_platform.base.quantity import counted
from gpu_platform.catalog import Catalog
from gpu_platform.planning.clouds.controllers import (
    ControllerPods,
    Room,
    largest,
    on_existing_nodes,
    requests_text,
    room_text,
    without_room,
)
from gpu_platform.planning.clouds.nodes import rooms_of_cpu_pools
from gpu_platform.planning.clouds.section import CloudCluster
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.problems import Problems


def plan_system_nodes(
    declared: bool,
    size: Callable[..., Decided[Any]],
    cluster: CloudCluster | None,
    pools: Sequence[PoolPlan],
    controllers: Sequence[ControllerPods],
    catalog: Catalog,
    problems: Problems,
) -> Decided[CloudCluster | None]:
    """Return a new cluster with enough system nodes for the controllers, or an existing cluster unchanged.

    `declared` is true if the stack file names the machine type. `size` is the cloud's `size_system_nodes`.
    """
    assert cluster is not None  # noqa: S101 - clouds that create nodes plan the cluster
    if cluster.create is None:
        return on_existing_nodes(cluster.name, cluster, controllers)
    here, others = problems.at("create"), rooms_of_cpu_pools(pools)
    created = size(f"cluster {cluster.name}", cluster.create, declared, controllers, others, catalog, here)
    sized: CloudCluster = replace(cast("Any", cluster), create=created.value)
    return Decided(sized, created.decisions)


def system_rooms(
    room: Callable[[str, Catalog], Room], cluster: CloudCluster | None, catalog: Catalog
) -> Sequence[Room] | None:
    """Return the free CPU and memory of each system node, for the maximum number of system nodes."""
    create: Any = cluster.create if cluster is not None else None
    return None if create is None else [room(create.system_machine_type, catalog)] * create.system_nodes[1]


def choose_system_type(
    subject: str,
    declared: str | None,
    types: Sequence[str],
    count: tuple[int, int],
    growing_by: str | None,
    room: Callable[[str], Room],
    pods: Sequence[ControllerPods],
    others: Sequence[Room],
    problems: Problems,
) -> Decided[str]:
    """Return the declared machine type or, if it is None, the first of `types` with room for the controllers.

    `count` is the lowest and highest number of nodes, and `growing_by` who changes it, or None. `room` returns the
    CPU and memory of a node for controllers. `others` is the same for the nodes of CPU pools. `problems` points to
    `create`.
    """
    least, most = count

    def missing(name: str) -> tuple[str, ...]:
        return without_room(pods, [room(name)] * most, others)

    sufficient = next((name for name in types if not missing(name)), types[-1])
    name = declared or sufficient
    if lacking := missing(name):
        problems.at("system").add(
            f"at most {counted(most, 'node')} of {name}, with {room_text(room(name))} for controllers on each",
            f"room for {requests_text(pods)}, most of it for {largest(pods)}; there is no room for "
            f"{', '.join(lacking)}",
            f"write machine_type: {sufficient}",
        )
    decision = Decision(
        subject=subject,
        what="system nodes",
        chosen=("" if growing_by is None else f"{least} to ") + f"{counted(most, 'node')} of {name}",
        why=f"controllers request {requests_text(pods)}, mostly {largest(pods)}"
        + ("" if growing_by is None else f"; {growing_by} adds nodes for them")
        + ("; the smallest machine type with room for them" if declared is None else ""),
    )
    return Decided(name, (decision,))
