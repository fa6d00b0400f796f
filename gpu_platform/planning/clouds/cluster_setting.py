"""Settings of a new cluster that several clouds have. A preview reports changes to them."""

from __future__ import annotations

from gpu_platform.planning.clouds.section import ClusterSetting


def most_system_nodes(number: int) -> ClusterSetting:
    """Return the maximum number of system nodes."""
    return ClusterSetting(
        name="system_nodes",
        what="most system nodes",
        field="cluster.create.system.max",
        values=number,
        loss="removes-capacity",
        on_loss="{lost} of the nodes of controllers may be deleted, and their pods move",
    )


def api_access(networks: tuple[str, ...], what: str = "the API server") -> ClusterSetting:
    """Return the networks that reach the API server. `what` are the addresses that they reach."""
    return ClusterSetting(
        name="api_access",
        what="networks that reach the API server",
        field="cluster.create.api_access",
        values=networks,
        loss="cuts-access",
        on_loss=f"{{lost}} no longer reaches {what}",
    )
