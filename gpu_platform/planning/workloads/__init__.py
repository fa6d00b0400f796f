"""Decide how the declared workloads of teams run: their API, nodes, volumes and limits."""

from gpu_platform.planning.workloads.checks import check, check_one
from gpu_platform.planning.workloads.fabric import plan_pod_fabric
from gpu_platform.planning.workloads.plans import (
    checkpoints_claim,
    home_claim,
    levels_of,
    node_seconds,
    plan,
    plan_one,
    provisioned_by,
    topology_annotation,
    workloads_of,
)
from gpu_platform.planning.workloads.section import TeamWorkloadsPlan

__all__ = [
    "TeamWorkloadsPlan",
    "check",
    "check_one",
    "checkpoints_claim",
    "home_claim",
    "levels_of",
    "node_seconds",
    "plan",
    "plan_one",
    "plan_pod_fabric",
    "provisioned_by",
    "topology_annotation",
    "workloads_of",
]
