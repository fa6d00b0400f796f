"""AKS cluster settings, such as system nodes and access. A preview reports changes to these settings.

Sources: terraform-provider-azurerm, kubernetes_cluster (default_node_pool); AKS docs, "Customize cluster egress
with outbound types" (update); read 2026-11-30.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpu_platform.planning.clouds.aks.plan import AksClusterPlan, CreateAksPlan
from gpu_platform.planning.clouds.cluster_setting import api_access, most_system_nodes
from gpu_platform.planning.clouds.section import CloudCluster, ClusterSetting


def cluster_settings(cluster: CloudCluster) -> tuple[ClusterSetting, ...]:
    """Return the settings of a cluster that a preview compares with the last deployment."""
    assert isinstance(cluster, AksClusterPlan)  # noqa: S101 - the plan is of this cloud
    return () if cluster.create is None else tuple(_of_create(cluster, cluster.create))


def _of_create(cluster: AksClusterPlan, create: CreateAksPlan) -> Iterator[ClusterSetting]:
    yield ClusterSetting(
        name="system_template",
        what="size, disk and zones of the system nodes",
        field="cluster.create.system",
        values=(
            f"{create.system_machine_type}, {create.system_disk_gb} GB {create.system_disk_type}, "
            f"zones {', '.join(create.system_zones) or 'none'}",
        ),
        loss="rolls-nodes",
        on_loss="the system nodes move to a temporary pool and back, and the controllers' pods move with them",
    )
    if cluster.kubernetes is not None:
        yield ClusterSetting(
            name="system_version",
            what="Kubernetes version, which the system nodes follow",
            field="cluster.kubernetes",
            values=(cluster.kubernetes,),
            loss="rolls-nodes",
            on_loss="AKS replaces the system nodes one by one, and the controllers' pods move to other nodes",
        )
    if create.subnet is None:
        yield ClusterSetting(
            name="nodes_cidr",
            what="range of the nodes",
            field="cluster.create.nodes_cidr",
            values=(create.nodes_cidr,),
            loss="rolls-nodes",
            on_loss="Azure does not change the range of a subnet that has nodes, and nodes keep their subnet",
            fixed=True,
        )
    yield ClusterSetting(
        name="creates_resource_group",
        what="resource group",
        field="cluster.create.resource_group",
        values=("create" if create.creates_resource_group else "existing",),
        loss="rolls-nodes",
        on_loss="the resource group contains the cluster, so it can be neither deleted nor created again",
        fixed=True,
    )
    yield ClusterSetting(
        name="outbound",
        what="path of nodes and pods to the internet",
        field="cluster.create.network.outbound",
        values=(create.outbound_type,),
        loss="cuts-access",
        on_loss="their connections to the internet end, and new ones come from another public address",
    )
    yield most_system_nodes(create.system_nodes[1])
    yield api_access(create.api_access)
    yield ClusterSetting(
        name="admins",
        what="Entra ID groups with cluster-admin rights",
        field="cluster.create.admins",
        values=create.admins,
        loss="cuts-access",
        on_loss="{lost} loses all rights in the cluster",
    )
    yield ClusterSetting(
        name="secrets_key",
        what="key of the Secrets",
        field="cluster.create.kms_key",
        values=() if create.secrets_key is None else (create.secrets_key.url,),
        loss="in-place",
        on_loss="Secrets stay encrypted with the former key until they are written again, so keep it",
    )
    yield ClusterSetting(
        name="sku_tier",
        what="tier of the control plane",
        field="cluster.production",
        values=(create.sku_tier,),
        loss="in-place",
        on_loss="AKS changes the tier of the running control plane",
    )
