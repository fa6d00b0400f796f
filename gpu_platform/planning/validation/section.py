"""Types for the validation gate's plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gpu_platform.planning.nodes.section import Labels, Taint
from gpu_platform.planning.system_priorities import PriorityQuotaPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentMetricsPlan:
    """Settings for the node agent's metrics.

    `temperature_celsius` (°C) is the temperature at which the agent reports that a GPU has reached its threshold.
    `pod_monitor` indicates whether the Prometheus operator scrapes the agents, with `labels`. `pod_monitoring`
    indicates whether Google's managed Prometheus scrapes them. If neither does, the pods have annotations that a
    Prometheus server may look for.
    """

    port: int
    interval: str
    temperature_celsius: int
    pod_monitor: bool
    pod_monitoring: bool
    labels: Labels


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationPlan:
    """The validation gate, with the agent's image, its time limit, and its settings for each pool."""

    gate: bool
    timeout_seconds: int
    image: str
    namespace: str
    priority_class: str
    """Priority class of the agents. No pod may preempt them, because otherwise nothing would mark a failing node.
    """
    quota: PriorityQuotaPlan
    pod_security: Literal["baseline", "privileged"]
    """Pod Security level of the namespace. It is the highest level that the agent needs on any pool."""
    host_processes: tuple[str, ...]
    """Pools whose agents can see the processes of their host."""
    most_held: Mapping[str, int]
    """Maximum number of failing nodes that are tainted at once, for each pool that taints new nodes.

    It is 0 if the pool does not taint failing nodes.
    """
    held_with: Mapping[str, str]
    """Maps each planned pool that `per_node` creates from a pool in the stack file to the name of that pool. The
    planned pools of one pool in the stack file share its limit for failing nodes.
    """
    on_failure: Mapping[str, Literal["cordon", "replace"]]
    """Action that the agent takes on a node that has had the taint of failing nodes for `failing_seconds`, by
    pool. In other pools, the agent takes no action.
    """
    failing_seconds: int
    readiness: Mapping[str, Labels]
    """Node labels by pool, for each pool whose new nodes are released by the Node Readiness Controller."""
    readiness_taint: Taint | None
    metrics: AgentMetricsPlan | None
    """Settings for the agent's metrics, or None if the agent serves no metrics."""
    claims_devices: bool
    """Whether the agent accesses its GPUs through a resource claim with admin access."""
