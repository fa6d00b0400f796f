"""Plan the placement of a GKE pool (compact, or in one NVLink domain) and the upgrades of its nodes.

Sources: GKE docs on compact placement and node upgrade strategies; Compute Engine docs on compact placement and
workload policies; preconditions of cluster-toolkit 1.95 (gke-node-pool); read 2026-11-21.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpu_platform.base.quantity import counted
from gpu_platform.catalog import Catalog, GcpFamily, MachineType
from gpu_platform.planning.clouds.gke.capacity import locations
from gpu_platform.planning.clouds.gke.plan import CompactPlacement, UpgradeSettings
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import GkeCluster
from gpu_platform.stack.pool import FlexStart, Pool

# Limit for surge plus unavailable nodes. Source: the provider's schema of upgrade_settings.
MAX_PARALLEL_UPGRADES = 20
_POLICY = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementChoice:
    """The placement of a pool, and the reason for it."""

    compact: CompactPlacement | None
    why: str


def plan_placement(pool: Pool, machine: MachineType, cluster: GkeCluster, catalog: Catalog) -> PlacementChoice:
    """Return the placement of a valid pool."""
    domain = catalog.nvlink_domain(machine)
    if domain is not None:
        group = pool.placement.group if pool.placement is not None else None
        placed = CompactPlacement(
            policy=group or f"{pool.name}-nvlink", create=group is None, topology=domain.topology
        )
        return PlacementChoice(compact=placed, why="NVLink connects the nodes of the same workload policy")
    if pool.placement is not None:
        if pool.placement.type != "compact":
            return PlacementChoice(compact=None, why="set in the stack file")
        group = pool.placement.group
        why = "set in the stack file"
        if group is None and pool.capacity.type == "reservation":
            # Source: cluster-toolkit 1.95, update_reservation_props in its Slurm controller.
            why += (
                "; a dense reservation supports compact placement, and other reservations support only their own "
                "placement policy"
            )
        return PlacementChoice(compact=_compact(pool, group), why=why)
    why_not = _why_not(pool, machine, cluster, catalog.gcp_family(machine))
    if why_not is not None:
        return PlacementChoice(compact=None, why=why_not)
    return PlacementChoice(
        compact=_compact(pool, None), why="training on several nodes with GPU NICs needs the nodes close together"
    )


def _compact(pool: Pool, group: str | None) -> CompactPlacement:
    return CompactPlacement(policy=group or f"{pool.name}-compact", create=group is None)


def _why_not(pool: Pool, machine: MachineType, cluster: GkeCluster, family: GcpFamily) -> str | None:
    """Return why a pool without `placement` has no compact placement, or None if it has compact placement."""
    zones = locations(pool, cluster)
    if pool.workload != "training" or pool.count.maximum < 2:
        return "only training on several nodes needs the nodes close together"
    if machine.rdma_interfaces == 0 or pool.network.rdma is False:
        return "without GPU NICs the distance between nodes matters little"
    if pool.capacity.type == "reservation":
        return "a reservation has its own placement; nodes with a different placement cannot use it"
    if isinstance(pool.capacity, FlexStart):
        if pool.capacity.queued:
            return "queued provisioning does not support compact placement"
        if not family.compact_with_flex_start:
            return f"{machine.name} does not support compact placement with flex-start"
    if len(zones) != 1:
        return "compact placement needs a single zone"
    return None


def is_compact(pool: Pool, machine: MachineType, cluster: GkeCluster, catalog: Catalog) -> bool:
    """Return whether a pool has compact placement. The pool may not have been checked yet."""
    return plan_placement(pool, machine, cluster, catalog).compact is not None


def check_placement(
    pool: Pool, machine: MachineType, cluster: GkeCluster, catalog: Catalog, problems: Problems
) -> None:
    """Record problems with a placement that GKE refuses."""
    placement = pool.placement
    _check_size(pool, plan_placement(pool, machine, cluster, catalog), catalog.gcp_family(machine), problems)
    if placement is None:
        return
    here = problems.at("placement")
    if placement.type == "cluster":  # the parser of the stack file refuses this type
        return
    domain = catalog.nvlink_domain(machine)
    if domain is not None and placement.type == "none":
        here.at("type").add(
            f"'none' on {machine.name}",
            "the workload policy that the program creates, or one of your own; without a policy, the nodes of "
            "a pool "
            f"may be in several NVLink domains ({domain.source})",
            "remove `placement`, or write `type: compact` and set `group` to the name of your policy",
        )
        return
    if placement.type == "none":
        if placement.group is not None:
            here.at("group").add(
                f"{placement.group!r} with type none", "group only with type compact", "write type: compact"
            )
        return
    if placement.group is not None and not _POLICY.fullmatch(placement.group):
        here.at("group").add(
            f"{placement.group!r}",
            "the name of a resource policy in the cluster's project and region, without a path: a-z, 0-9 and -",
            "see gcloud compute resource-policies list, or remove group",
        )
    family = catalog.gcp_family(machine)
    if not family.compact_placement and domain is None:
        here.at("type").add(
            f"'compact' with {machine.name}",
            f"none, because Compute Engine does not support compact placement for machines of {family.name}",
            "remove placement, or use a different machine type",
        )
        return
    _check_compact(pool, machine, cluster, family, here.at("type"))


def _check_size(pool: Pool, choice: PlacementChoice, family: GcpFamily, problems: Problems) -> None:
    """Record a problem if a pool has more nodes than the program's placement policy can place.

    A placement policy of the cluster's owner may place more nodes.
    """
    most = family.compact_max_nodes
    created = choice.compact is not None and choice.compact.create
    if most is None or not created or pool.count.maximum <= most:
        return
    problems.at("count").at("desired" if pool.count.max is None else "max").add(
        f"{counted(pool.count.maximum, 'node')} with compact placement",
        f"at most {most}, the maximum number of nodes of {family.name} that one policy places together",
        f"split the pool into pools of {most} nodes or fewer, or write placement: {{type: none}}",
    )


def _check_compact(
    pool: Pool, machine: MachineType, cluster: GkeCluster, family: GcpFamily, here: Problems
) -> None:
    zones = locations(pool, cluster)
    if len(zones) != 1:
        here.add(
            f"'compact' over {len(zones)} zones" if zones else "'compact' over all zones of the cluster",
            "exactly one zone, because a compact placement policy keeps nodes within one zone",
            f"write zones: [{zones[0] if zones else cluster.location + '-a'}]",
        )
    if not isinstance(pool.capacity, FlexStart):
        return
    if pool.capacity.queued:
        here.add(
            "'compact' with queued provisioning",
            "none, because GKE does not support compact placement for nodes of a ProvisioningRequest",
            "write type: none, or remove capacity.queued",
        )
    elif not family.compact_with_flex_start:
        here.add(
            f"'compact' with flex-start on {machine.name}",
            "none; among the GPU machines only a3-ultragpu and a4-highgpu support this combination",
            "write type: none, or use a different capacity type",
        )


def plan_upgrade(pool: Pool, compact: bool) -> UpgradeSettings | None:
    """Return the upgrade settings of a pool. By default, GKE adds no surge nodes to reserved or compactly placed
    pools.

    Return None for flex-start, because GKE always uses short-lived upgrades for flex-start, and these have no
    settings. With short-lived upgrades, nodes run until the end of their lifetime, and only new nodes have the new
    configuration (GKE docs, Node upgrade strategies, 2026-04-13; crossplane-contrib/provider-upjet-gcp#1028; read
    2026-11-29).
    """
    if pool.capacity.type == "flex-start":
        return None
    if pool.upgrade.strategy == "blue-green":
        return UpgradeSettings(strategy="BLUE_GREEN", max_surge=None, max_unavailable=None)
    tight = compact or pool.capacity.type == "reservation"
    surge = pool.upgrade.max_surge if pool.upgrade.max_surge is not None else 0 if tight else 1
    unavailable = pool.upgrade.max_unavailable
    if unavailable is None:
        unavailable = 1 if surge == 0 else 0
    return UpgradeSettings(strategy="SURGE", max_surge=surge, max_unavailable=unavailable)


def _check_short_lived(pool: Pool, here: Problems) -> None:
    """Record a problem for upgrade settings that flex-start nodes do not support.

    `max_unavailable` is allowed, because it also limits the operator's driver upgrades.
    """
    for name, value in (("strategy", pool.upgrade.strategy), ("max_surge", pool.upgrade.max_surge)):
        if value not in ("surge", 0, None):
            here.at(name).add(
                f"{value!r} with flex-start",
                "none; GKE creates flex-start nodes for pods, not for upgrades, and does not change existing "
                "nodes",
                f"remove {name}",
            )
    if pool.upgrade.max_unavailable == 0:
        here.at("max_unavailable").add("0", "1 or more", "remove max_unavailable")


def most_nodes(pool: Pool, machine: MachineType, cluster: GkeCluster, catalog: Catalog) -> int:
    """Return the maximum number of nodes of a pool, including the nodes that a rolling update adds. The pool may
    not have been checked yet.
    """
    most = pool.count.maximum
    upgrade = plan_upgrade(pool, is_compact(pool, machine, cluster, catalog))
    return most + (upgrade.surge(most) if upgrade is not None else 0)


def check_upgrade(
    pool: Pool, machine: MachineType, cluster: GkeCluster, catalog: Catalog, problems: Problems
) -> None:
    """Record problems with upgrade settings that GKE refuses, or that need more nodes than the capacity allows."""
    here = problems.at("upgrade")
    compact = is_compact(pool, machine, cluster, catalog)
    settings = plan_upgrade(pool, compact)
    if settings is None:
        _check_short_lived(pool, here)
        return
    held = "compact placement" if compact else "a reservation"
    if pool.upgrade.strategy == "blue-green":
        if compact or pool.capacity.type == "reservation":
            here.at("strategy").add(
                f"'blue-green' with {held}",
                "surge; there is no capacity for the second set of nodes that a blue-green upgrade needs",
                "remove strategy",
            )
        for name in ("max_surge", "max_unavailable"):
            if getattr(pool.upgrade, name) is not None:
                here.at(name).add(f"{name} with blue-green", f"{name} only with surge", f"remove {name}")
        return
    max_surge = pool.upgrade.max_surge
    if max_surge is not None and max_surge > 0 and compact:
        here.at("max_surge").add(
            f"{max_surge} with {held}",
            "0; an extra node would need capacity in addition to the placed nodes",
            "remove max_surge; nodes are then replaced one by one",
        )
    together = (settings.max_surge or 0) + (settings.max_unavailable or 0)
    if together == 0:
        here.at("max_unavailable").add(
            "0, without surge",
            "max_surge or max_unavailable above 0; otherwise no node can be replaced",
            "write max_unavailable: 1",
        )
    if together > MAX_PARALLEL_UPGRADES:
        here.add(
            f"{together} nodes at once",
            f"max_surge and max_unavailable of {MAX_PARALLEL_UPGRADES} together, GKE's limit",
            "lower them",
        )
