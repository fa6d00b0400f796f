"""Finds the live nodes whose MIG layout changes, and the GPU pods on them. All functions are pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from gpu_platform.base import names
from gpu_platform.deploy.rollout.annotations import is_cordoned, rollout_annotation
from gpu_platform.deploy.rollout.drain import blocks_of
from gpu_platform.deploy.rollout.layouts import CONFIG_KEY, Configs, config_text, read_configs, same_layout
from gpu_platform.live.objects import is_ready, mapping_at
from gpu_platform.live.pods import GpuPod, eviction_action, gpu_pods, pod_name
from gpu_platform.planning.changes.budgets import Block, DisruptionBudget
from gpu_platform.planning.mig.progress import is_in_progress, is_stuck
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.sharing.section import MigRollPlan

Node = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """Nodes, pods, MIG configs and budgets of a cluster. `configs` is None if the cluster has no GPU Operator."""

    nodes: Sequence[Node] = ()
    pods: Sequence[Mapping[str, Any]] = ()
    configs: Configs | None = None
    budgets: Sequence[DisruptionBudget] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChange:
    """A node that receives another MIG config.

    `drains` is true if the node must be drained because its GPUs are partitioned again. Otherwise only the
    config's name changes. `begun` is true if an earlier run has cordoned the node. `out` is true if the node is
    cordoned or not ready, for any reason. `failed` is true if its last change failed. `stuck` is true if its last
    change has had no result for too long. A stuck node also counts as `failed`. `blocks` are the disruption
    budgets that prevent its drain. `unmanaged` are pods without a controller. They are not evicted, because
    nothing would start them again.
    """

    node: str
    pool: str
    old: str
    new: str
    labels: Mapping[str, str]
    allocatable: Mapping[str, int]
    drains: bool
    begun: bool = False
    out: bool = False
    failed: bool = False
    stuck: bool = False
    pods: tuple[GpuPod, ...] = ()
    blocks: tuple[Block, ...] = ()
    unmanaged: tuple[str, ...] = ()

    @property
    def obstacle(self) -> int:
        """The obstacle to draining the node: 0 for none, 1 for a temporary obstacle, 2 for a permanent one."""
        if self.unmanaged or any(block.forever for block in self.blocks):
            return 2
        return 1 if self.blocks else 0

    def remark(self, rules: MigRollPlan) -> str:
        """Return why the node stays unchanged, or that an earlier run has started its change, or ""."""
        if self.unmanaged:
            return f"stays unchanged, because no controller manages these pods: {', '.join(self.unmanaged)}"
        if any(block.forever for block in self.blocks):
            return "stays unchanged: a disruption budget never allows an eviction"
        if self.pods and not rules.drains:
            return "stays unchanged while GPU pods run on it, because sharing.change is replace"
        return "started by an earlier run" if self.begun else ""

    @property
    def config(self) -> str:
        """Name of the config that the node receives."""
        return self.labels[names.MIG_CONFIG_LABEL]

    def to_json(self) -> dict[str, Any]:
        """Return the change for a JSON report."""
        return {
            "node": self.node,
            "pool": self.pool,
            "from": self.old,
            "to": self.new,
            "config": self.config,
            "drain": self.drains,
            "begun": self.begun,
            "gpu_pods": [pod.to_json() for pod in self.pods],
            "blocks": [block.to_json() for block in self.blocks],
            "unmanaged_pods": list(self.unmanaged),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRollout:
    """Changes to a pool's nodes, in the order in which they are made.

    `elsewhere` are nodes of the pool that are unavailable for other reasons and count towards `max_unavailable`.
    """

    pool: str
    rules: MigRollPlan
    changes: tuple[NodeChange, ...]
    elsewhere: tuple[str, ...]
    nodes: int


@dataclass(frozen=True, slots=True)
class Rollout:
    """Pools with nodes to change, and the configs of these nodes by name."""

    pools: tuple[PoolRollout, ...] = ()
    configs: Configs = field(default_factory=dict[str, Sequence[Mapping[str, Any]]])
    unavailable: tuple[str, ...] = ()
    """Unavailable nodes of all pools of the stack, except nodes that an earlier run has started to change."""

    @property
    def changes(self) -> tuple[NodeChange, ...]:
        """Changes to the nodes of all pools."""
        return tuple(change for pool in self.pools for change in pool.changes)

    @property
    def drained(self) -> tuple[PoolRollout, ...]:
        """Pools with nodes that must be drained."""
        return tuple(pool for pool in self.pools if any(change.drains for change in pool.changes))


def plan_rollout(plan: EnvironmentPlan, live: LiveCluster, now: datetime | None = None) -> Rollout:
    """Return the nodes of a cluster whose MIG layout differs from the plan.

    `now` defaults to the time of the call.
    """
    if live.configs is None or plan.operator.mig_config is None:
        return Rollout()
    planned = read_configs(plan.operator.mig_config.data.get(CONFIG_KEY))
    now = now or datetime.now(UTC)
    by_node: dict[str, list[Mapping[str, Any]]] = {}
    for pod in live.pods:
        by_node.setdefault(str(mapping_at(pod, "spec").get("nodeName") or ""), []).append(pod)
    pools: list[PoolRollout] = []
    for pool in plan.pools:
        nodes = nodes_of(pool, live.nodes)
        found = [_change(node, pool, plan.stack, planned, live, by_node, now) for node in nodes]
        changes = [change for change in found if change is not None]
        if changes and pool.sharing.mig_roll is not None:
            begun = {change.node for change in changes if change.begun}
            out = [_name(node) for node in nodes if _is_out(node) and _name(node) not in begun]
            pools.append(
                PoolRollout(
                    pool=pool.name,
                    rules=pool.sharing.mig_roll,
                    changes=tuple(sorted(changes, key=_order)),
                    elsewhere=tuple(out),
                    nodes=len(nodes),
                )
            )
    wanted = {change.config for pool in pools for change in pool.changes}
    configs = {name: planned[name] for name in sorted(wanted) if name in planned}
    begun = {change.node for pool in pools for change in pool.changes if change.begun}
    return Rollout(tuple(pools), configs, tuple(sorted(_unavailable(plan, live.nodes) - begun)))


def _unavailable(plan: EnvironmentPlan, nodes: Iterable[Node]) -> set[str]:
    """Return the nodes of all pools that are cordoned or not ready."""
    selectors = [pool.node_selector.items() for pool in plan.pools]
    return {
        _name(node)
        for node in nodes
        if _is_out(node) and any(one <= mapping_at(node, "metadata", "labels").items() for one in selectors)
    }


def _order(change: NodeChange) -> tuple[bool, int, int, str]:
    """Return a sort key. Nodes that an earlier run has started to change come first, then nodes that can be
    drained. Within these groups, nodes with fewer pods come first.

    Empty nodes can then take the pods of the other nodes.
    """
    return not change.begun, change.obstacle, len(change.pods), change.node


def nodes_of(pool: PoolPlan, nodes: Iterable[Node]) -> list[Node]:
    """Return the live nodes of a pool whose layout `up` changes in place.

    Existing nodes that a pool selects by label are left out, because their owner sets their labels. Nodes with a
    custom AMI on EKS are left out, because their labels are in the user data, so EKS replaces the nodes.
    """
    if pool.sharing.mig_config is None or pool.nodes.ownership == "selected":
        return []
    if not pool.cloud_nodes.relabels_in_place:
        return []
    if pool.nodes.ownership in {"created", "labelled"}:
        return [node for node in nodes if _name(node) in pool.nodes.names]
    wanted = pool.node_selector.items()
    return [node for node in nodes if wanted <= mapping_at(node, "metadata", "labels").items()]


def _change(
    node: Node,
    pool: PoolPlan,
    stack: str,
    planned: Configs,
    live: LiveCluster,
    pods: Mapping[str, Sequence[Mapping[str, Any]]],
    now: datetime,
) -> NodeChange | None:
    wanted = pool.labels[names.MIG_CONFIG_LABEL]
    labels = mapping_at(node, "metadata", "labels")
    # A node without the label has no MIG layout.
    present = str(labels.get(names.MIG_CONFIG_LABEL) or names.MIG_ALL_DISABLED)
    reason = rollout_annotation(node)
    begun = reason is not None and reason.stack == stack
    given_up = reason is not None and reason.failure != ""
    stuck = is_stuck(node, now) or (begun and given_up and is_in_progress(node))
    failed = stuck or (
        labels.get(names.MIG_STATE_LABEL) == "failed" and not offers(node, pool.node_expectation.gpu_resources)
    )
    if present == wanted and labels.get(names.MIG_CONFIG_LABEL) and not begun and not failed:
        return None
    gpus = pool.gpus_per_node
    held = (live.configs or {}).get(present)
    if present == names.MIG_ALL_DISABLED and held is None:
        held = planned.get(present)
    own = {key: pool.labels[key] for key in _OWN_LABELS if key in pool.labels}
    on_node = pods.get(_name(node), ())
    drains = begun or failed or not same_layout(held, planned.get(wanted), gpus)
    return NodeChange(
        node=_name(node),
        pool=pool.name,
        old=config_text(present, held, gpus) + (" (no result)" if stuck else " (failed)" if failed else ""),
        new=config_text(wanted, planned.get(wanted), gpus),
        labels=own,
        allocatable=pool.node_expectation.gpu_resources,
        drains=drains,
        begun=begun,
        out=_is_out(node),
        failed=failed,
        stuck=stuck,
        pods=gpu_pods(on_node),
        blocks=blocks_of(on_node, live.budgets) if drains else (),
        unmanaged=tuple(pod_name(pod) for pod in on_node if drains and eviction_action(pod) == "unmanaged"),
    )


_OWN_LABELS = (names.DEVICE_PLUGIN_CONFIG_LABEL, names.MIG_CONFIG_LABEL)


def offers(node: Node, resources: Mapping[str, int]) -> bool:
    """Return whether a node's allocatable amount of each of these extended resources equals the given count."""
    allocatable = mapping_at(node, "status", "allocatable")
    return all(str(allocatable.get(name, "0")) == str(count) for name, count in resources.items())


def _is_out(node: Node) -> bool:
    return is_cordoned(node) or not is_ready(node)


def _name(node: Node) -> str:
    return str(node["metadata"]["name"])
