"""GKE cluster settings, such as system nodes, release channel and access. A preview reports changes to these
settings.

Source: GKE docs, Node upgrade strategies; terraform-provider-google, update of a node pool; read 2026-11-21.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpu_platform.planning.clouds.cluster_setting import api_access, most_system_nodes
from gpu_platform.planning.clouds.gke.plan import CreateGkePlan, GkeClusterPlan
from gpu_platform.planning.clouds.section import CloudCluster, ClusterSetting

_MOVES = "GKE recreates the node pool, and the controllers' pods move to other nodes"


def cluster_settings(cluster: CloudCluster) -> tuple[ClusterSetting, ...]:
    """Return the settings of a cluster that a preview compares with the last deployment."""
    assert isinstance(cluster, GkeClusterPlan)  # noqa: S101 - the plan is of this cloud
    return () if cluster.create is None else tuple(_of_create(cluster, cluster.create))


def _of_create(cluster: GkeClusterPlan, create: CreateGkePlan) -> Iterator[ClusterSetting]:
    yield ClusterSetting(
        name="multi_networking",
        what="multi-networking",
        field="pools",
        values=("on",) if cluster.multi_networking else (),
        loss="in-place",
        on_loss="no pool needs multi-networking any more, but the cluster keeps it",
        on_gain="GKE enables multi-networking in the running cluster, for pools of A3 or newer",
    )
    yield ClusterSetting(
        name="fqdn_policies",
        what="network policies with host names",
        field="cluster.fqdn_policies",
        values=("on",) if cluster.fqdn_policies else (),
        loss="in-place",
        on_loss="the cluster keeps these policies, because the provider would have to recreate the cluster",
        on_gain="GKE enables these policies in the running cluster",
    )
    replaced = "GKE replaces the system nodes one by one, and the controllers' pods move to other nodes"
    yield ClusterSetting(
        name="system_template",
        what="machine type and disk of the system nodes",
        field="cluster.create.system",
        values=(f"{create.system_machine_type}, {create.system_disk_gb} GB",),
        loss="rolls-nodes",
        on_loss=replaced,
    )
    # If the plan has an upgrade order, a maintenance exclusion keeps the system nodes at their version.
    if cluster.kubernetes is not None and create.upgrade_order is None:
        yield ClusterSetting(
            name="system_version",
            what="minimum Kubernetes version, which the system nodes follow",
            field="cluster.kubernetes",
            values=(cluster.kubernetes,),
            loss="in-place",
            # Auto-upgrade sets the system nodes' version (GKE docs, Auto-upgrading nodes; read 2026-11-29).
            on_loss="`up` changes only the control plane; GKE replaces the system nodes later, in the "
            "maintenance windows, and the controllers' pods move to other nodes",
        )
    yield ClusterSetting(
        name="system_key",
        what="encryption key of the system nodes' disks",
        field="cluster.create.system.kms_key",
        values=(create.system_kms_key or "the cloud's default",),
        loss="rolls-nodes",
        on_loss=_MOVES,
    )
    yield ClusterSetting(
        name="system_account",
        what="service account of the system nodes",
        field="cluster.node_service_account",
        values=(cluster.node_email or "created by the program",),
        loss="rolls-nodes",
        on_loss=f"the service account of a node pool cannot be changed, so {_MOVES}",
    )
    yield most_system_nodes(create.system_nodes[1])
    yield from _of_access(create)
    yield ClusterSetting(
        name="release_channel",
        what="release channel",
        field="cluster.create.release_channel",
        values=(create.release_channel.lower(),),
        loss="in-place",
        on_loss="GKE upgrades the control plane and the nodes when a version reaches the new channel",
    )


def _of_access(create: CreateGkePlan) -> Iterator[ClusterSetting]:
    """Yield a setting for each way to reach the cluster or to log in. An edit to the stack file can remove such a
    way.
    """
    yield ClusterSetting(
        name="dns_access",
        what="DNS endpoint of the API server",
        field="cluster.create.dns_access",
        values=("the DNS endpoint",) if create.dns_access else (),
        loss="cuts-access",
        on_loss="{lost} is closed: only the networks of api_access reach the API server, and kubeconfigs change",
    )
    yield ClusterSetting(
        name="authenticator_groups",
        what="security group for logins",
        field="cluster.create.authenticator_groups",
        values=() if create.authenticator_groups is None else (create.authenticator_groups,),
        loss="cuts-access",
        on_loss="the cluster no longer recognises the groups in {lost}, so their members lose their roles",
    )
    yield api_access(create.api_access, "the IP addresses of the API server")
