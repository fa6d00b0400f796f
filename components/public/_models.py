"""Maps each typed dictionary of the stack file to the models that check its mappings.

`python -m tools.docs` writes `stack_file_types` from this table and the models.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gpu_platform.stack import (
    addons,
    aks,
    bootstrap,
    changes,
    charts,
    claims,
    cluster,
    compute_class,
    eks_access,
    eks_network,
    eks_system,
    gke_system,
    images,
    nodes,
    objects,
    operations,
    parts,
    pool,
    pool_schedule,
    queueing,
    sharing,
    storage,
    team,
    team_identity,
    team_network,
    team_routes,
    team_scaling,
    team_workloads,
)
from gpu_platform.stack._types import SpecModel
from gpu_platform.stack.docstrings import field_description

MODELS: Final[Mapping[str, tuple[type[SpecModel], ...]]] = {
    "KeptDirectory": (team_workloads.KeptDirectory,),
    "TrainingJob": (team_workloads.TrainingJob,),
    "Autoscaling": (team_workloads.Autoscaling,),
    "KafkaLag": (team_workloads.KafkaLag,),
    "Route": (team_workloads.Route,),
    "InferenceService": (team_workloads.InferenceService,),
    "Notebook": (team_workloads.Notebook,),
    "BatchJob": (team_workloads.BatchJob,),
    "RayHead": (team_workloads.RayHead,),
    "RayWorkers": (team_workloads.RayWorkers,),
    "RayCluster": (team_workloads.RayCluster,),
    "MaintenanceExclusion": (cluster.Exclusion,),
    "Maintenance": (cluster.Maintenance,),
    "ExistingVpc": (cluster.ExistingVpc, eks_network.EksNetwork, aks.AksNetwork),
    "Iam": (eks_network.Iam,),
    "ComputeClass": (compute_class.ComputeClass,),
    "StorageClass": (
        storage.DiskStorage,
        storage.NfsStorage,
        storage.LustreStorage,
        storage.BucketStorage,
        storage.ExistingStorage,
    ),
    "SystemNodes": (eks_system.SystemNodes, gke_system.GkeSystemNodes, aks.AksSystemNodes),
    "CreateCluster": (cluster.CreateEks, cluster.CreateGke, aks.CreateAks),
    "ClusterParts": (parts.EksParts, aks.AksParts),
    "Login": (eks_access.Login,),
    "Oidc": (eks_access.Oidc,),
    "PlatformCluster": (
        cluster.EksCluster,
        cluster.GkeCluster,
        aks.AksCluster,
        cluster.ExistingCluster,
        cluster.SandboxCluster,
    ),
    "Driver": (cluster.Driver,),
    "Operator": (cluster.Operator,),
    "Count": (pool.Count,),
    "CapacityBlock": (pool.Block,),
    "Capacity": (pool.OnDemand, pool.Spot, pool.Reservation, pool.CapacityBlock, pool.FlexStart),
    "Placement": (pool.Placement,),
    "Topology": (pool.Topology,),
    "Tuning": (nodes.Tuning,),
    "NodeScript": (bootstrap.NodeScript,),
    "KubeletLimits": (bootstrap.KubeletLimits,),
    "Bootstrap": (bootstrap.Bootstrap,),
    "Taint": (pool.Taint,),
    "ExistingNodes": (pool.ExistingNodes,),
    "MigDevices": (sharing.MigDevices,),
    "Sharing": (sharing.NoSharing, sharing.TimeSlicing, sharing.Mps, sharing.Mig, sharing.Dra),
    "PoolSchedule": (pool_schedule.PoolSchedule,),
    "Karpenter": (nodes.Karpenter,),
    "Image": (nodes.Image,),
    "Network": (nodes.Network,),
    "Disk": (nodes.Disk,),
    "Upgrade": (nodes.Upgrade,),
    "Pool": (pool.Pool,),
    "ObjectLimits": (team.ObjectLimits,),
    "TeamIngress": (team_network.Source,),
    "TeamScaling": (team_scaling.TeamScaling,),
    "TeamRoutes": (team_routes.TeamRoutes,),
    "Quota": (team.Quota,),
    "Claim": (claims.Claim,),
    "DeviceClass": (claims.DeviceClass,),
    "Workload": (team.Workload,),
    "GpuUnits": (team.GpuUnits,),
    "TeamQueue": (team.TeamQueue,),
    "TeamBucket": (team_identity.TeamBucket,),
    "TeamIdentity": (team_identity.TeamIdentity,),
    "Team": (team.Team,),
    "Preemption": (queueing.Preemption,),
    "Queueing": (queueing.Queueing,),
    "Addons": (addons.Addons,),
    "ChartSettings": (charts.ChartSettings,),
    "Images": (images.Images,),
    "Objects": (objects.Objects,),
    "Monitoring": (operations.Monitoring,),
    "Budget": (operations.Budget,),
    "Window": (changes.Window,),
    "Changes": (changes.Changes,),
    "Cleanup": (operations.Cleanup,),
    "BurnIn": (operations.BurnIn,),
    "ValidationSettings": (operations.Validation,),
}
"""Models by the name of the typed dictionary. The models of a union share one dictionary with all their fields."""

DESCRIPTIONS: Final[Mapping[str, str]] = {
    "ExistingVpc": "An existing network for a new cluster, with the fields for EKS, for GKE or for AKS.",
    "StorageClass": "A storage class for volume claims. Only `type` and `retain` apply to all types.",
    "SystemNodes": "The nodes without GPUs of a new cluster, with the fields for EKS, for GKE or for AKS.",
    "CreateCluster": "A new cluster, with the fields for EKS, for GKE or for AKS.",
    "ClusterParts": "Which controllers are installed, and which the cluster already has, for EKS or for AKS.",
    "PlatformCluster": "The cluster of a whole platform, either an existing cluster or a new one with `create`.",
    "Capacity": "How nodes are paid for: on-demand, spot, reservation, capacity-block (EKS) or flex-start (GKE).",
    "Sharing": "How the GPUs are shared: none, time-slicing, mps, mig or dra, each with its own fields.",
}
"""Descriptions of typed dictionaries with several models. Any other typed dictionary has the description of its
model.
"""

TAGS: Final = {"Capacity": "type", "Sharing": "mode"}
"""Key that distinguishes the models of a union. It is required, even if a model has a default."""

LEFT_OUT: Final[Mapping[str, frozenset[str]]] = {"Pool": frozenset({"per_node"})}
"""Keys that the Pulumi components do not offer. Programs declare nodes with different sharing as several pools."""


def fields_of(kind: str) -> dict[str, str]:
    """Return the keys that the models of a typed dictionary accept, with their descriptions."""
    found: dict[str, str] = {}
    for model in MODELS[kind]:
        for name, field in model.model_fields.items():
            key = field.alias or name
            if key not in LEFT_OUT.get(kind, frozenset()):
                found[key] = found.get(key) or field_description(model, name)
    return found
