"""Decide how what teams declare to run is run: by which API, where, with what volumes and limits."""

from gpu_platform.planning.workloads.checks import check, check_one
from gpu_platform.planning.workloads.fabric import plan_pod_fabric
from gpu_platform.planning.workloads.plans import levels_of, plan, plan_one, topology_annotation, workloads_of
from gpu_platform.planning.workloads.section import TeamWorkloadsPlan

__all__ = [
    "TeamWorkloadsPlan",
    "check",
    "check_one",
    "levels_of",
    "plan",
    "plan_one",
    "plan_pod_fabric",
    "topology_annotation",
    "workloads_of",
]
