"""Types for the queue plan: Kueue, its flavors and topologies, and the queue of each team."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gpu_platform.base import names
from gpu_platform.planning.clouds.section import Provisioning
from gpu_platform.planning.nodes.section import Labels, Taint
from gpu_platform.planning.teams.section import PriorityClassPlan

CHART = "kueue"
CONFIG_MAP = "kueue-manager-config"  # the name that Kueue's chart uses
CONFIG_KEY = "controller_manager_config.yaml"
HELM_SECONDS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class KueuePlan:
    """Kueue's controller.

    `install` is `helm` if the chart installs Kueue, `config` if the program only writes its configuration
    (sandbox), and `present` if the cluster's owner installs it. `config` is the controller's Configuration
    (config.kueue.x-k8s.io/v1beta2). `values` are the chart's values, including `config`.
    """

    install: Literal["helm", "config", "present"]
    repository: str
    version: str
    namespace: str
    config: Mapping[str, Any]
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyPlan:
    """A Kueue Topology. Its levels are node labels, ordered from the widest to the narrowest level."""

    name: str
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorPlan:
    """A ResourceFlavor for nodes of one kind. Pods that start on the flavor receive its labels as a node selector,
    and its tolerations.

    `pool` is the pool of its nodes, or None for nodes that belong to no pool. A flavor without a pool does not
    tolerate the taint of GPU nodes. Otherwise Kueue would count the free CPU of GPU nodes, which do not accept
    pods without GPUs.
    """

    name: str
    pool: str | None
    node_labels: Labels
    taints: tuple[Taint, ...] = ()
    topology: str | None = None

    @property
    def tolerations(self) -> tuple[Taint, ...]:
        """Taints that Kueue makes the pods tolerate."""
        return tuple(taint for taint in self.taints if taint.key != names.GPU_TAINT_KEY)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPlan:
    """How Kueue retries the start of a workload: the first and the longest wait, in seconds.

    `limit` is the number of attempts after which Kueue deactivates the workload, which then never starts again.
    """

    base_seconds: int
    max_seconds: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisioningPlan:
    """An AdmissionCheck that adds nodes for a workload before it starts, and its ProvisioningRequestConfig.

    `pool` is the pool of the nodes. The check adds no nodes for pods that request none of `managed_resources`.
    `retry` describes how the check requests nodes again after a failure, for example while the pool has its
    maximum number of nodes.
    """

    name: str
    pool: str
    request: Provisioning
    managed_resources: tuple[str, ...]
    retry: RetryPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The nominal quota, borrowing limit and lending limit of one resource in a flavor."""

    resource: str
    nominal: str
    borrow: str
    lend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorQuota:
    """A queue's limits for all resources of one flavor.

    `pool` is the pool of the flavor, or None for nodes that belong to no pool. `check` is the admission check that
    provisions its nodes, if any. `on_node` contains the units of GPU resources on one of its nodes. `in_container`
    contains the maximum number of these units that one container can use there.
    """

    flavor: str
    pool: str | None
    limits: tuple[Limits, ...]
    check: str | None = None
    on_node: Mapping[str, int] = field(default_factory=dict[str, int])
    in_container: Mapping[str, int] = field(default_factory=dict[str, int])

    def serves(self, resource: str) -> bool:
        """Return whether the queue has quota for a resource on this flavor, or may borrow quota for it there."""
        return any(one.resource == resource and {one.nominal, one.borrow} != {"0"} for one in self.limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortPlan:
    """A Cohort, with the resources that belong to no quota and that its teams may borrow, by flavor and
    resource.
    """

    name: str
    flavors: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedClass:
    """A compute class, with the node label and the value that pods use to select its pools."""

    label: str
    name: str
    pools: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamQueuePlan:
    """A team's ClusterQueue, which has the name of the team's namespace, and the LocalQueue in that namespace.

    `ceiling` is the nominal quota plus the borrowing limit, by ResourceQuota key. `required` indicates whether
    Jobs and pods must name the queue themselves. `priorities` are the priority classes that the team may use.
    `default_priority` is the priority class of queued objects that name none. If it is None, the cluster cannot
    add a priority class, and such Jobs have priority 0. `tainted` indicates whether all GPU nodes have the taint
    for GPUs. Queues do not add a toleration for it to their workloads. `accounts` are the user names of members
    that are service accounts in other namespaces.
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
    """CPU limit for containers with GPUs that request CPU and set no limit. It is empty if the cluster cannot add
    limits.
    """
    default_limit: Mapping[str, str] = field(default_factory=dict[str, str])
    """Limits of CPU and memory that the namespace sets on containers without limits."""
    tainted: bool = False
    accounts: tuple[str, ...] = ()
    classes: tuple[SelectedClass, ...] = ()
    """The compute classes of the cluster."""

    @property
    def mutates(self) -> bool:
        """Whether the cluster adds defaults to the team's pod templates when they are created."""
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
    """The queues of an environment. `teams` are the queues of the teams in its stack file."""

    kueue: KueuePlan
    topologies: tuple[TopologyPlan, ...]
    flavors: tuple[FlavorPlan, ...]
    cohorts: tuple[CohortPlan, ...]
    priority_classes: tuple[PriorityClassPlan, ...]
    provisioning: tuple[ProvisioningPlan, ...]
    teams: tuple[TeamQueuePlan, ...]
