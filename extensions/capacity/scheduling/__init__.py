"""Simulates kube-scheduler: where it places pods, why pods stay pending, and what helps."""

from extensions.capacity.scheduling.advice import NodeType
from extensions.capacity.scheduling.model import Node, PodGroup, ProfileName, RunningPod, Scenario, Toleration
from extensions.capacity.scheduling.profiles import packed_config, scored_by_amount
from extensions.capacity.scheduling.report import PlacementReport, report_placement
from extensions.capacity.scheduling.schedule import Placement, place

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
