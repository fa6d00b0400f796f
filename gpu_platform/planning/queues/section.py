"""Types of the plan of queues: Kueue, its flavors and topologies, and the queue of each team."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gpu_platform.base import names
from gpu_platform.planning.clouds.section import Provisioning
from gpu_platform.planning.nodes.section import Labels, Taint
from gpu_platform.planning.teams.section import PriorityClassPlan

CHART = "kueue"
CONFIG_MAP = "kueue-manager-config"  # as the chart names it
CONFIG_KEY = "controller_manager_config.yaml"
HELM_SECONDS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class KueuePlan:
    """Kueue's controller. `install`: by its chart, by its configuration alone (sandbox), or by nobody (present).

    `config`: the controller's Configuration (config.kueue.x-k8s.io/v1beta2); `values`: of the chart, with it.
    """

    install: Literal["helm", "config", "present"]
    repository: str
    version: str
    namespace: str
    config: Mapping[str, Any]
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyPlan:
    """A Topology: labels of nodes, the widest level first."""

    name: str
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorPlan:
    """A ResourceFlavor: nodes of one kind. Pods that start on it get its labels as node selector, and tolerations.

    `pool`: the pool of its nodes; None: nodes that no pool describes. The taint of GPU nodes is not tolerated:
    pods without GPUs would start on what is left of the CPU of GPU nodes, where they are refused.
    """

    name: str
    pool: str | None
    node_labels: Labels
    taints: tuple[Taint, ...] = ()
    topology: str | None = None

    @property
    def tolerations(self) -> tuple[Taint, ...]:
        """The taints that pods are made to tolerate."""
        return tuple(taint for taint in self.taints if taint.key != names.GPU_TAINT_KEY)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisioningPlan:
    """An AdmissionCheck by which a workload gets nodes before it starts, and its ProvisioningRequestConfig.

    `pool`: of the nodes; `managed_resources`: pods that request none of them get no nodes by it.
    """

    name: str
    pool: str
    request: Provisioning
    managed_resources: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Quantities of one resource of a flavor: nominal quota, and the most that is borrowed and lent."""

    resource: str
    nominal: str
    borrow: str
    lend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorQuota:
    """Limits of all resources of a queue on one flavor.

    `pool`: the pool of the flavor, None for nodes that no pool describes; `check`: of its nodes, where they are
    provisioned; `on_node`: units of GPU resources on one of its nodes; `in_container`: the most of them that one
    container can have there.
    """

    flavor: str
    pool: str | None
    limits: tuple[Limits, ...]
    check: str | None = None
    on_node: Mapping[str, int] = field(default_factory=dict[str, int])
    in_container: Mapping[str, int] = field(default_factory=dict[str, int])

    def serves(self, resource: str) -> bool:
        """Return whether the queue has or may borrow any of a resource here."""
        return any(one.resource == resource and {one.nominal, one.borrow} != {"0"} for one in self.limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortPlan:
    """A Cohort: what its teams may borrow that no quota has, by flavor and resource."""

    name: str
    flavors: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedClass:
    """A compute class: the node label and its value by which pods select its pools."""

    label: str
    name: str
    pools: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamQueuePlan:
    """The ClusterQueue of a team, named as its namespace, and its LocalQueue there.

    `ceiling`: nominal quota and borrowing limit together by key of a ResourceQuota; `required`: whether Jobs and
    pods must name the queue themselves; `priorities`: the classes that the team may use; `default_priority`: that
    of what waits and names none, None: the cluster cannot add it, and such Jobs have priority 0; `tainted`:
    whether all GPU nodes have the taint of GPUs, which no queue tolerates for its workloads; `accounts`: user
    names of service accounts of other namespaces that are members.
    """

    namespace: str
    local_queue: str
    cohort: str
    weight: str
    within_queue: Literal["LowerPriority", "Never"]
    reclaim: Literal["Any", "LowerPriority", "Never"]
    flavors: tuple[FlavorQuota, ...]
    ceiling: Mapping[str, str]
    priorities: tuple[str, ...]
    required: bool = False
    default_priority: str | None = None
    cpu_limit: str = ""
    """CPU limit of containers with GPUs that request CPU and name no limit; where the cluster can add it."""
    default_limit: Mapping[str, str] = field(default_factory=dict[str, str])
    """Limits of CPU and memory that the namespace gives containers without one."""
    tainted: bool = False
    accounts: tuple[str, ...] = ()
    classes: tuple[SelectedClass, ...] = ()
    """The compute classes of the cluster."""

    @property
    def mutates(self) -> bool:
        """Whether the cluster changes templates of the team when they are created."""
        return self.default_priority is not None

    def limits(self, pool: str) -> Mapping[str, Limits]:
        """Return the limits on a pool by resource."""
        return {limit.resource: limit for one in self.flavors if one.pool == pool for limit in one.limits}

    @property
    def resources(self) -> tuple[str, ...]:
        """The resources that the queue limits."""
        return tuple(limit.resource for limit in self.flavors[0].limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuesPlan:
    """The queues of an environment. `teams`: of its own stack file; those of teams with a stack are in that."""

    kueue: KueuePlan
    topologies: tuple[TopologyPlan, ...]
    flavors: tuple[FlavorPlan, ...]
    cohorts: tuple[CohortPlan, ...]
    priority_classes: tuple[PriorityClassPlan, ...]
    provisioning: tuple[ProvisioningPlan, ...]
    teams: tuple[TeamQueuePlan, ...]
