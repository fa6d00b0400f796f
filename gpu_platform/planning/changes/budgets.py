"""Decide which disruption budgets prevent the eviction of a pod, for now or permanently.

The rules follow the eviction subresource of the API server and the disruption controller. Source: Kubernetes 1.36,
pkg/registry/core/pod/storage/eviction.go and pkg/controller/disruption/disruption.go, read 2026-11-22.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

_MAX_LISTED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class DisruptionBudget:
    """A PodDisruptionBudget.

    `rule` is the limit in its spec as text, such as `maxUnavailable: 0`. A `selector` of None selects no pods.
    `allowed`, `healthy`, `needed` and `expected` are pod counts from its status. `observed` indicates whether the
    status belongs to the current spec. `failure` is the reason why the disruption controller cannot compute the
    status.
    """

    namespace: str
    name: str
    rule: str
    selector: Mapping[str, Any] | None
    evicts_unready: bool = False
    """Whether pods that are not ready can always be evicted (`unhealthyPodEvictionPolicy: AlwaysAllow`)."""
    allowed: int = 0
    healthy: int = 0
    needed: int = 0
    expected: int = 0
    observed: bool = True
    failure: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    def selects(self, pod: GuardedPod) -> bool:
        """Return whether the budget applies to a pod. An empty selector selects all pods of the namespace."""
        if self.selector is None or pod.namespace != self.namespace:
            return False
        labels: Mapping[str, str] = self.selector.get("matchLabels") or {}
        expressions: Sequence[Mapping[str, Any]] = self.selector.get("matchExpressions") or ()
        return labels.items() <= pod.labels.items() and all(_matches(one, pod.labels) for one in expressions)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedPod:
    """A pod that a drain would evict.

    A pod is `exempt` if it is pending, has terminated or is being deleted. The API server evicts such a pod
    regardless of budgets.
    """

    namespace: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    ready: bool = True
    exempt: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The reason why pods cannot be evicted.

    If `forever` is set, waiting does not help, and a user has to apply `fix`. `pods` and `budgets` contain names
    in the form `namespace/name`.
    """

    pods: tuple[str, ...]
    budgets: tuple[str, ...]
    forever: bool
    why: str
    fix: str = ""

    def __str__(self) -> str:
        named = f"{', '.join(self.pods[:_MAX_LISTED])}{_more(len(self.pods))}"
        return f"{named}: {self.why}" + (f"; {self.fix}" if self.fix else "")

    def to_json(self) -> dict[str, Any]:
        """Return the reason why evictions are blocked, the affected pods and their budgets, and the fix, for a
        JSON report.
        """
        return {
            "pods": list(self.pods),
            "budgets": list(self.budgets),
            "forever": self.forever,
            "why": self.why,
            "fix": self.fix,
        }


def block_of(pod: GuardedPod, budgets: Iterable[DisruptionBudget]) -> Block | None:
    """Return the reason why a pod cannot be evicted, or None if it can be evicted."""
    if pod.exempt:
        return None
    selecting = [budget for budget in budgets if budget.selects(pod)]
    if not selecting:
        return None
    if len(selecting) > 1:
        names = tuple(sorted(map(str, selecting)))
        return _block(
            pod,
            names,
            f"disruption budgets {' and '.join(names)} select the same pods; the eviction API evicts no "
            "pod with more than one budget",
            fix="change the selectors so that only one budget selects the pods",
        )
    [budget] = selecting
    if not pod.ready and (budget.evicts_unready or budget.healthy >= budget.needed > 0):
        return None
    if not budget.observed:
        return _block(pod, (str(budget),), f"Kubernetes has not evaluated disruption budget {budget} yet")
    if budget.allowed > 0:
        return None
    if budget.failure:
        return _block(
            pod,
            (str(budget),),
            f"Kubernetes cannot evaluate disruption budget {budget} ({budget.rule}): {budget.failure}",
            fix="set minAvailable to an integer, which needs no controller with a scale subresource",
        )
    if 0 < budget.expected <= budget.needed:
        return _block(
            pod,
            (str(budget),),
            f"disruption budget {budget} ({budget.rule}) never allows an eviction: "
            f"it needs {budget.needed} healthy {_pods(budget.needed)} of {budget.expected}",
            fix=f"{_loosen(budget)}, or delete the {_pods(budget.expected)}",
        )
    return _block(
        pod,
        (str(budget),),
        f"disruption budget {budget} ({budget.rule}) allows no eviction now: "
        f"it needs {budget.needed} healthy {_pods(budget.needed)} and has {budget.healthy}",
    )


def unmanaged_block(namespace: str, pod: str) -> Block:
    """Return the reason why a drain does not evict a pod that no controller manages. The pod stays on its node, so
    `up` never changes the node.
    """
    return Block(
        pods=(f"{namespace}/{pod}",),
        budgets=(),
        forever=True,
        why="no controller would start the pod again, so it is not evicted, and `up` stops at its node",
        fix="delete the pod first",
    )


def daemon_block(pod: str, daemon_set: str) -> Block:
    """Return the reason why a drain does not evict a DaemonSet's pod. The pod keeps its GPUs, so `up` never
    changes the node.

    The operator's upgrade controller evicts no pod from a node unless it may evict all pods with GPUs. Source:
    NVIDIA/k8s-operator-libs, pkg/upgrade/pod_manager.go, SchedulePodEviction; read 2026-11-29.
    """
    return Block(
        pods=(pod,),
        budgets=(),
        forever=True,
        why=f"DaemonSet {daemon_set} would start the pod again, so it is not evicted and keeps its GPUs",
        fix="first exclude the node in the DaemonSet's node affinity, or delete the DaemonSet",
    )


def merged(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Merge equal reasons, and combine their pods. Permanent reasons come first."""
    pods: dict[Block, list[str]] = {}
    for block in blocks:
        reason = Block(pods=(), budgets=block.budgets, forever=block.forever, why=block.why, fix=block.fix)
        pods.setdefault(reason, []).extend(block.pods)
    found = [
        Block(
            pods=tuple(sorted(set(names))),
            budgets=reason.budgets,
            forever=reason.forever,
            why=reason.why,
            fix=reason.fix,
        )
        for reason, names in pods.items()
    ]
    return tuple(sorted(found, key=lambda block: (not block.forever, block.why)))


def blocks_text(blocks: Sequence[Block]) -> str:
    """Return the reasons why pods cannot be evicted as one line of text."""
    return "; ".join(map(str, blocks[:_MAX_LISTED])) + _more(len(blocks))


def _block(pod: GuardedPod, budgets: tuple[str, ...], why: str, fix: str = "") -> Block:
    return Block(pods=(f"{pod.namespace}/{pod.name}",), budgets=budgets, forever=bool(fix), why=why, fix=fix)


def _loosen(budget: DisruptionBudget) -> str:
    # A maxUnavailable of 0 stays 0 with any number of replicas. Percentages are rounded up.
    is_zero = budget.rule.startswith("maxUnavailable")
    return "raise maxUnavailable" if is_zero else "lower minAvailable, run more replicas"


def _matches(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = expression["key"], cast("Sequence[str]", expression.get("values") or ())
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:  # DoesNotExist
            return key not in labels


def _pods(count: int) -> str:
    return "pod" if count == 1 else "pods"


def _more(count: int) -> str:
    return f" and {count - _MAX_LISTED} more" if count > _MAX_LISTED else ""
