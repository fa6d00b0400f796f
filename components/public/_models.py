"""Which models of the stack file check each typed dictionary of `types`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from components.public import types, workload_types
from gpu_platform.stack import (
    addons,
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
    team_workloads,
)
from gpu_platform.stack._types import SpecModel
from gpu_platform.stack.docstrings import field_description

MODELS: Final[Mapping[type[Any], tuple[type[SpecModel], ...]]] = {
    workload_types.KeptDirectory: (team_workloads.KeptDirectory,),
    workload_types.TrainingJob: (team_workloads.TrainingJob,),
    workload_types.Autoscaling: (team_workloads.Autoscaling,),
    workload_types.KafkaLag: (team_workloads.KafkaLag,),
    workload_types.Route: (team_workloads.Route,),
    workload_types.InferenceService: (team_workloads.InferenceService,),
    workload_types.Notebook: (team_workloads.Notebook,),
    workload_types.BatchJob: (team_workloads.BatchJob,),
    workload_types.RayHead: (team_workloads.RayHead,),
    workload_types.RayWorkers: (team_workloads.RayWorkers,),
    workload_types.RayCluster: (team_workloads.RayCluster,),
    types.MaintenanceExclusion: (cluster.Exclusion,),
    types.Maintenance: (cluster.Maintenance,),
    types.ExistingVpc: (cluster.ExistingVpc, eks_network.EksNetwork),
    types.Iam: (eks_network.Iam,),
    types.ComputeClass: (compute_class.ComputeClass,),
    types.StorageClass: (
        storage.DiskStorage,
        storage.NfsStorage,
        storage.LustreStorage,
        storage.BucketStorage,
        storage.ExistingStorage,
    ),
    types.SystemNodes: (eks_system.SystemNodes, gke_system.GkeSystemNodes),
    types.CreateCluster: (cluster.CreateEks, cluster.CreateGke),
    types.EksParts: (parts.EksParts,),
    types.Login: (eks_access.Login,),
    types.Oidc: (eks_access.Oidc,),
    types.PlatformCluster: (
        cluster.EksCluster,
        cluster.GkeCluster,
        cluster.ExistingCluster,
        cluster.SandboxCluster,
    ),
    types.Driver: (cluster.Driver,),
    types.Operator: (cluster.Operator,),
    types.Count: (pool.Count,),
    types.CapacityBlock: (pool.Block,),
    types.Capacity: (pool.OnDemand, pool.Spot, pool.Reservation, pool.CapacityBlock, pool.FlexStart),
    types.Placement: (pool.Placement,),
    types.Topology: (pool.Topology,),
    types.Tuning: (nodes.Tuning,),
    types.NodeScript: (bootstrap.NodeScript,),
    types.KubeletLimits: (bootstrap.KubeletLimits,),
    types.Bootstrap: (bootstrap.Bootstrap,),
    types.Taint: (pool.Taint,),
    types.ExistingNodes: (pool.ExistingNodes,),
    types.MigDevices: (sharing.MigDevices,),
    types.Sharing: (sharing.NoSharing, sharing.TimeSlicing, sharing.Mps, sharing.Mig, sharing.Dra),
    types.PoolSchedule: (pool_schedule.PoolSchedule,),
    types.Karpenter: (nodes.Karpenter,),
    types.Image: (nodes.Image,),
    types.Network: (nodes.Network,),
    types.Disk: (nodes.Disk,),
    types.Upgrade: (nodes.Upgrade,),
    types.Pool: (pool.Pool,),
    types.Quota: (team.Quota,),
    types.Claim: (claims.Claim,),
    types.DeviceClass: (claims.DeviceClass,),
    types.Workload: (team.Workload,),
    types.GpuUnits: (team.GpuUnits,),
    types.TeamQueue: (team.TeamQueue,),
    types.TeamBucket: (team_identity.TeamBucket,),
    types.TeamIdentity: (team_identity.TeamIdentity,),
    types.Team: (team.Team,),
    types.Preemption: (queueing.Preemption,),
    types.Queueing: (queueing.Queueing,),
    types.Addons: (addons.Addons,),
    types.ChartSettings: (charts.ChartSettings,),
    types.Images: (images.Images,),
    types.Objects: (objects.Objects,),
    types.Monitoring: (operations.Monitoring,),
    types.Budget: (operations.Budget,),
    types.Window: (changes.Window,),
    types.Changes: (changes.Changes,),
    types.Cleanup: (operations.Cleanup,),
    types.ValidationSettings: (operations.Validation,),
}


def fields_of(kind: type[Any]) -> dict[str, str]:
    """Return the keys that the models of a typed dictionary take, with what each means."""
    found: dict[str, str] = {}
    for model in MODELS[kind]:
        for name, field in model.model_fields.items():
            key = field.alias or name
            found[key] = found.get(key) or field_description(model, name)
    return found
