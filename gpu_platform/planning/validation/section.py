"""Types of the validation gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gpu_platform.planning.nodes.section import Labels, Taint
from gpu_platform.planning.system_priorities import PriorityQuotaPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentMetricsPlan:
    """Metrics of the node agent. `temperature_celsius`: from which a GPU's threshold counts as exceeded.

    `pod_monitor`: whether the Prometheus operator scrapes the agents, with `labels`; `pod_monitoring`: whether
    Google's managed Prometheus does. Else the pods have the annotations that a Prometheus may look for.
    """

    port: int
    interval: str
    temperature_celsius: int
    pod_monitor: bool
    pod_monitoring: bool
    labels: Labels


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationPlan:
    """The gate: the agent's image, its deadline and what every pool's nodes are compared with."""

    gate: bool
    timeout_seconds: int
    image: str
    namespace: str
    priority_class: str
    """Of the agents: no pod displaces them, or nothing would mark a node that fails."""
    quota: PriorityQuotaPlan
    pod_security: Literal["baseline", "privileged"]
    """Pod security level of the namespace: what the agent needs on some pool."""
    host_processes: tuple[str, ...]
    """Pools whose agents see the processes of their host."""
    most_held: Mapping[str, int]
    """By pool whose new nodes are held back: how many failing ones are held back at a time, too."""
    held_with: Mapping[str, str]
    """By part of a pool with `per_node`: the pool of the stack file whose failing nodes are counted together."""
    on_failure: Mapping[str, Literal["cordon", "replace"]]
    """By pool, what is done with a node that has been held back for `failing_seconds`; none: nothing."""
    failing_seconds: int
    readiness: Mapping[str, Labels]
    """By pool whose new nodes the Node Readiness Controller frees: the labels of its nodes."""
    readiness_taint: Taint | None
    metrics: AgentMetricsPlan | None
    """None: the agent serves no metrics."""
    claims_devices: bool
    """Whether the agent sees its GPUs by a resource claim with admin access."""
