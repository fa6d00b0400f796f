"""Stacks and their plans: functions that load them by name, the types of a plan, and facts about it."""

from gpu_platform.planning.monitoring import grafana
from gpu_platform.planning.nodes.section import Labels, Taint
from gpu_platform.planning.operator import UNREQUESTED
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.problems import Problems, check_unique
from gpu_platform.planning.queues.section import QueuesPlan, TeamQueuePlan
from gpu_platform.planning.sharing.node_start import NODE_SECONDS
from gpu_platform.planning.teams.admission_defaults import PodDefaults
from gpu_platform.planning.teams.section import TeamPlan
from gpu_platform.planning.upgrades import kubernetes_warnings
from gpu_platform.planning.validation import gate_name
from gpu_platform.stack.loaded import LoadedStack, environment_of, load_stack

__all__ = [
    "NODE_SECONDS",
    "UNREQUESTED",
    "EnvironmentPlan",
    "Labels",
    "LoadedStack",
    "PodDefaults",
    "PoolPlan",
    "Problems",
    "QueuesPlan",
    "Taint",
    "TeamPlan",
    "TeamQueuePlan",
    "check_unique",
    "environment_of",
    "gate_name",
    "grafana",
    "kubernetes_warnings",
    "load_stack",
]
