"""Check a change to the Kubernetes version of an EKS cluster, and explain the cluster's support type.

Sources: EKS user guide, "Update existing cluster to new Kubernetes version" (one minor version at a time), "Roll
back a cluster to a previous Kubernetes version" (within 7 days; node groups are rolled back by their owner) and
"View current cluster upgrade policy"; read 2026-11-23.
"""

from __future__ import annotations

from typing import Literal

from gpu_platform.base.errors import Problem
from gpu_platform.catalog import Catalog, OperatorRelease
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.kubernetes_versions import minor
from gpu_platform.stack.cluster import EksCluster

_ROLLBACK = "https://docs.aws.amazon.com/eks/latest/userguide/rollback-cluster.html"


def version_problem(running: str, planned: str) -> Problem | None:
    """Return why `up` cannot change an EKS control plane from one minor version to another, or None."""
    step = minor(planned) - minor(running)
    if step < 0:
        return Problem(
            "cluster.kubernetes",
            f"{planned!r}, and the cluster has {running}",
            f"{running} or newer: `up` changes the control plane before its nodes, and nodes may not be "
            "newer than the control plane",
            f'write kubernetes: "{running}"; EKS rolls a control plane back within 7 days of an upgrade, after '
            f"its nodes ({_ROLLBACK}), and then the older version can be declared; nothing was changed",
        )
    if step > 1:
        next_version = f"1.{minor(running) + 1}"
        return Problem(
            "cluster.kubernetes",
            f"{planned!r}, and the cluster has {running}",
            "the next minor version: EKS upgrades a control plane by one minor version at a time",
            f'write kubernetes: "{next_version}", run `up`, then continue; nothing was changed',
        )
    return None


def addon_kubernetes(catalog: Catalog) -> tuple[str, ...]:
    """Return the Kubernetes minor versions that have a pinned version of every add-on, oldest first."""
    addons = catalog.eks_addons.values()
    known = {version for addon in addons for version in addon.versions}
    return tuple(sorted((one for one in known if all(one in addon.versions for addon in addons)), key=minor))


def planned_kubernetes(cluster: EksCluster, release: OperatorRelease | None, catalog: Catalog) -> str | None:
    """Return the minor version of the cluster, or None if the stack file does not determine it.

    A new cluster without a declared version gets the newest version that its add-ons and the GPU Operator support.
    """
    if cluster.kubernetes is not None or cluster.create is None or release is None:
        return cluster.kubernetes
    lowest, highest = release.kubernetes
    possible = [one for one in addon_kubernetes(catalog) if minor(lowest) <= minor(one) <= minor(highest)]
    return possible[-1] if possible else None


def explain_support(
    cluster: EksCluster, support: Literal["standard", "extended"], kubernetes: str, catalog: Catalog
) -> Decision:
    """Return a decision about a cluster's support type. It states what happens at the end of standard support."""
    dates = catalog.kubernetes_versions.get(("eks", kubernetes))
    end = f"{kubernetes}: {dates.standard_until}" if dates is not None else f"{kubernetes}: date unknown"
    platform = catalog.kubernetes_platforms["eks"]
    why = {
        "standard": f"at the end of standard support ({end}) EKS upgrades the control plane automatically",
        "extended": f"after standard support ({end}) the cluster stays on its version for a year, for "
        f"{platform.extended_usd_per_hour} instead of {platform.usd_per_hour} USD/h",
    }
    return Decision(subject=f"cluster {cluster.name}", what="support", chosen=support, why=why[support])
