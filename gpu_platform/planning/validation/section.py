"""Types for the plan of the validation gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gpu_platform.planning.nodes.section import Labels, Taint
from gpu_platform.planning.system_priorities import PriorityQuotaPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentMetricsPlan:
    """Metrics of the node agent. From `temperature_celsius`, a GPU's temperature threshold counts as exceeded.

    `pod_monitor` indicates whether the Prometheus operator scrapes the agents, with `labels`. `pod_monitoring`
    indicates whether Google's managed Prometheus scrapes them. Otherwise the pods have annotations that a
    Prometheus may look for.
    """

    port: int
    interval: str
    temperature_celsius: int
    pod_monitor: bool
    pod_monitoring: bool
    labels: Labels


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationPlan:
    """The validation gate: the agent's image, its time limit, and the settings of the agent for each pool."""

    gate: bool
    timeout_seconds: int
    image: str
    namespace: str
    priority_class: str
    """Priority class of the agents. No pod may preempt them; otherwise nothing would mark a failing node."""
    quota: PriorityQuotaPlan
    pod_security: Literal["baseline", "privileged"]
    """Pod Security level of the namespace: the level that the agent needs on at least one pool."""
    host_processes: tuple[str, ...]
    """Pools whose agents see the processes of their host."""
    most_held: Mapping[str, int]
    """For each pool that holds new nodes back, how many failing nodes are also held back at the same time."""
    held_with: Mapping[str, str]
    """For each part of a pool with `per_node`, the pool in the stack file that limits their failing nodes
    together.
    """
    on_failure: Mapping[str, Literal["cordon", "replace"]]
    """What is done with a node that has been held back for `failing_seconds`, by pool. Nothing is done in other
    pools.
    """
    failing_seconds: int
    readiness: Mapping[str, Labels]
    """The node labels of each pool whose new nodes the Node Readiness Controller releases."""
    readiness_taint: Taint | None
    metrics: AgentMetricsPlan | None
    """None if the agent serves no metrics."""
    claims_devices: bool
    """Whether the agent accesses its GPUs through a resource claim with admin access."""
