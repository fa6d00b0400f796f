"""Which live nodes another MIG layout would reach, and which pods run there: pure, over the API's objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpu_platform import names
from gpu_platform.engine.objects import mapping_at
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.sharing.section import MigRollPlan
from gpu_platform.rollout.annotations import is_cordoned, is_ready, mark_of
from gpu_platform.rollout.layouts import CONFIG_KEY, Configs, config_text, read_configs, same_layout
from gpu_platform.rollout.pods import GpuPod, gpu_pods

Node = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """What the cluster has now. `configs` None: there is no operator, so that no label cuts a GPU."""

    nodes: Sequence[Node] = ()
    pods: Sequence[Mapping[str, Any]] = ()
    configs: Configs | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChange:
    """One node that gets another MIG config.

    `drains`: its GPUs are cut anew, so pods have to leave; else only the config's name is another one. `begun`:
    an earlier run has cordoned it. `out`: it takes no pods now, whoever cordoned it, or is not ready.
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
    pods: tuple[GpuPod, ...] = ()

    @property
    def config(self) -> str:
        """The name of the config that the node gets."""
        return self.labels[names.MIG_CONFIG_LABEL]

    def to_json(self) -> dict[str, Any]:
        """Return it for a JSON report."""
        return {
            "node": self.node,
            "pool": self.pool,
            "from": self.old,
            "to": self.new,
            "config": self.config,
            "drain": self.drains,
            "begun": self.begun,
            "gpu_pods": [pod.to_json() for pod in self.pods],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRollout:
    """What one pool's nodes go through, in the order of their doing.

    `elsewhere`: nodes of the pool that are out of service for other reasons, before and after, and count in the
    budget.
    """

    pool: str
    rules: MigRollPlan
    changes: tuple[NodeChange, ...]
    elsewhere: tuple[str, ...]
    nodes: int

    def __str__(self) -> str:
        drained = [change for change in self.changes if change.drains]
        minutes = f"{self.rules.drain_timeout_seconds / 60:g} min"
        how = f"{self.rules.max_unavailable} at a time, each drained first (for at most {minutes})"
        if not self.rules.drains:
            how = "those without GPU pods alone: sharing.change is replace"
        lines = [f"MIG layout of pool {self.pool} changes on {len(drained)} of {self.nodes} nodes, {how}"]
        for change in drained:
            pods = ", ".join(str(pod) for pod in change.pods) or "no GPU pods"
            begun = "; begun by an earlier run" if change.begun else ""
            lines.append(f"  {change.node}: {change.old} \N{RIGHTWARDS ARROW} {change.new}; {pods}{begun}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Rollout:
    """Every pool that has nodes to change. `configs`: what they get, by name."""

    pools: tuple[PoolRollout, ...] = ()
    configs: Configs = field(default_factory=dict[str, Sequence[Mapping[str, Any]]])

    @property
    def changes(self) -> tuple[NodeChange, ...]:
        """The nodes of all pools."""
        return tuple(change for pool in self.pools for change in pool.changes)

    @property
    def drained(self) -> tuple[PoolRollout, ...]:
        """The pools some of whose nodes are drained."""
        return tuple(pool for pool in self.pools if any(change.drains for change in pool.changes))


def plan_rollout(plan: EnvironmentPlan, live: LiveCluster) -> Rollout:
    """Return which nodes of a cluster would be changed to be what the plan says."""
    if live.configs is None or plan.operator.mig_config is None:
        return Rollout()
    planned = read_configs(plan.operator.mig_config.data.get(CONFIG_KEY))
    by_node: dict[str, list[Mapping[str, Any]]] = {}
    for pod in live.pods:
        by_node.setdefault(str(mapping_at(pod, "spec").get("nodeName") or ""), []).append(pod)
    pools: list[PoolRollout] = []
    for pool in plan.pools:
        nodes = nodes_of(pool, live.nodes)
        found = [_change(node, pool, plan.stack, live.configs, planned, by_node) for node in nodes]
        changes = [change for change in found if change is not None]
        if changes and pool.sharing.mig_roll is not None:
            begun = {change.node for change in changes if change.begun}
            out = [_name(node) for node in nodes if _is_out(node) and _name(node) not in begun]
            pools.append(
                PoolRollout(
                    pool=pool.name,
                    rules=pool.sharing.mig_roll,
                    # What was begun first, then what is empty: it takes in the pods of the others.
                    changes=tuple(sorted(changes, key=lambda one: (not one.begun, len(one.pods), one.node))),
                    elsewhere=tuple(out),
                    nodes=len(nodes),
                )
            )
    wanted = {change.config for pool in pools for change in pool.changes}
    return Rollout(tuple(pools), {name: planned[name] for name in sorted(wanted) if name in planned})


def nodes_of(pool: PoolPlan, nodes: Iterable[Node]) -> list[Node]:
    """Return the live nodes of a pool that get its layout in place; none where others cut them or replace them.

    The owner of nodes that a selector chooses sets their labels. Nodes of an own image on EKS are made with their
    labels, so that EKS makes new ones for new labels.
    """
    if pool.sharing.mig_config is None or pool.nodes.ownership == "selected":
        return []
    if pool.cloud is not None and not pool.cloud.relabels_in_place:
        return []
    if pool.nodes.ownership in {"created", "labelled"}:
        return [node for node in nodes if _name(node) in pool.nodes.names]
    wanted = pool.node_selector.items()
    return [node for node in nodes if wanted <= mapping_at(node, "metadata", "labels").items()]


def _change(
    node: Node,
    pool: PoolPlan,
    stack: str,
    live: Configs,
    planned: Configs,
    pods: Mapping[str, Sequence[Mapping[str, Any]]],
) -> NodeChange | None:
    wanted = pool.labels[names.MIG_CONFIG_LABEL]
    labels = mapping_at(node, "metadata", "labels")
    # A node that nobody has asked for a layout has none.
    present = str(labels.get(names.MIG_CONFIG_LABEL) or names.MIG_ALL_DISABLED)
    mark = mark_of(node)
    begun = mark is not None and mark.stack == stack
    failed = labels.get(names.MIG_STATE_LABEL) == "failed" and not offers(node, pool.node_expectation.allocatable)
    if present == wanted and labels.get(names.MIG_CONFIG_LABEL) and not begun and not failed:
        return None
    gpus = pool.gpus_per_node
    held = live.get(present)
    if present == names.MIG_ALL_DISABLED and held is None:
        held = planned.get(present)
    own = {key: pool.labels[key] for key in _OWN_LABELS if key in pool.labels}
    return NodeChange(
        node=_name(node),
        pool=pool.name,
        old=config_text(present, held, gpus) + (" (failed)" if failed else ""),
        new=config_text(wanted, planned.get(wanted), gpus),
        labels=own,
        allocatable=pool.node_expectation.allocatable,
        drains=begun or failed or not same_layout(held, planned.get(wanted), gpus),
        begun=begun,
        out=_is_out(node),
        pods=gpu_pods(pods.get(_name(node), ())),
    )


_OWN_LABELS = (names.DEVICE_PLUGIN_CONFIG_LABEL, names.MIG_CONFIG_LABEL)


def offers(node: Node, resources: Mapping[str, int]) -> bool:
    """Return whether a node offers these units of extended resources."""
    allocatable = mapping_at(node, "status", "allocatable")
    return all(str(allocatable.get(name, "0")) == str(count) for name, count in resources.items())


def _is_out(node: Node) -> bool:
    return is_cordoned(node) or not is_ready(node)


def _name(node: Node) -> str:
    return str(node["metadata"]["name"])
