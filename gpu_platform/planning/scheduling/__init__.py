"""Decide where kube-scheduler would place pods, why others stay pending, and which changes and moves help."""

from gpu_platform.planning.scheduling.advice import NodeType
from gpu_platform.planning.scheduling.model import Node, PodGroup, ProfileName, RunningPod, Scenario, Toleration
from gpu_platform.planning.scheduling.profiles import packed_config, scored_by_amount
from gpu_platform.planning.scheduling.report import PlacementReport, report_placement
from gpu_platform.planning.scheduling.schedule import Placement, place

__all__ = [
    "Node",
    "NodeType",
    "Placement",
    "PlacementReport",
    "PodGroup",
    "ProfileName",
    "RunningPod",
    "Scenario",
    "Toleration",
    "packed_config",
    "place",
    "report_placement",
    "scored_by_amount",
]
