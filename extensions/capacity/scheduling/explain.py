"""Explains why pods stay pending: names the scarce resource, with the requested and the free amounts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from extensions.capacity.scheduling.model import (
    CPU,
    MEMORY,
    PODS,
    Lack,
    Pending,
    PodGroup,
    Scenario,
    quota_resource,
)
from gpu_platform.base.quantity import bytes_text, counted

_BYTES = (MEMORY, "ephemeral-storage")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Reason why pods stay pending.

    `resource` names what is scarce: a resource, a quota key, `labels` or `taints`. `text` is the explanation.
    """

    resource: str
    text: str


def reason_of(scenario: Scenario, pending: Pending) -> Reason:
    """Return the reason why pods stay pending."""
    group = scenario.groups[pending.group]
    match pending.cause:
        case "quota":
            return _quota(group, pending)
        case "nodes":
            return _nodes(scenario, group, pending)
        case "resources":
            return _resources(scenario, group, pending)


def scarce_resource(lacks: Sequence[Lack]) -> str:
    """Return the resource that most often is the only one that a node lacks. If every node lacks several
    resources, return the one that most nodes lack.
    """
    alone = Counter(lack.resources[0] for lack in lacks if len(lack.resources) == 1)
    if alone:
        return max(alone, key=lambda name: alone[name])
    together = Counter(name for lack in lacks for name in lack.resources)
    return max(together, key=lambda name: together[name])


def amount_text(name: str, amount: int) -> str:
    """Format an amount of a resource as readable text, such as `11.2 cores`, `64 GiB` or `4`."""
    if name == CPU:
        return f"{amount / 1000:g} cores"
    if name in _BYTES or name.startswith("hugepages-"):
        return bytes_text(amount)
    return str(amount)


def quantity_text(name: str, amount: int) -> str:
    """Format an amount as a Kubernetes quantity, such as `11200m`, `64Gi` or `4`."""
    if name == CPU:
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if name in _BYTES:
        for suffix, size in (("Gi", 2**30), ("Mi", 2**20)):
            if amount and amount % size == 0:
                return f"{amount // size}{suffix}"
    return str(amount)


def _quota(group: PodGroup, pending: Pending) -> Reason:
    resource = quota_resource(pending.key) or pending.key
    return Reason(
        resource=pending.key,
        text=f"quota of team {group.team}: {amount_text(resource, max(0, pending.quota_left))} of {pending.key} "
        f"left, but a pod requests {amount_text(resource, group.needs()[resource])}",
    )


def _nodes(scenario: Scenario, group: PodGroup, pending: Pending) -> Reason:
    parts: list[str] = []
    if pending.unmatched:
        selector = ", ".join(f"{key}={value}" for key, value in sorted(group.node_selector.items()))
        asked = selector or "its node affinity"
        parts.append(f"{counted(pending.unmatched, 'node')} without the labels that the pod selects ({asked})")
    for taint, count in pending.untolerated.items():
        parts.append(f"{counted(count, 'node')} with taint {taint}, which the pod does not tolerate")
    if not scenario.nodes:
        parts.append("there are no nodes")
    return Reason(resource="taints" if pending.untolerated else "labels", text="; ".join(parts))


def _resources(scenario: Scenario, group: PodGroup, pending: Pending) -> Reason:
    scarce = scarce_resource(pending.lacks)
    asked = group.needs()[scarce]
    most_total = max(lack.total[scarce] for lack in pending.lacks)
    wanted = f"the pod requests {amount_text(scarce, asked)}"
    if most_total < asked:
        has = f"no node that the pod may run on has more than {amount_text(scarce, most_total)}"
        if most_total == 0:
            has = "no node that the pod may run on has any"
        return Reason(resource=scarce, text=f"{scarce}: {has}; {wanted}")
    short = [lack for lack in pending.lacks if scarce in lack.resources]
    misaligned = [lack for lack in short if lack.misaligned]
    if misaligned:
        free = max(lack.free[scarce] for lack in misaligned)
        return Reason(
            resource=scarce,
            text=f"{scarce}: {free} free on a node, but spread over more NUMA nodes than the pod needs, so the "
            f"kubelet's Topology Manager would refuse the pod; {wanted}",
        )
    only = [lack for lack in short if len(lack.resources) == 1]
    if not only:
        return Reason(resource=scarce, text=f"{_most_free(scarce, short)}; {wanted}{_others(pending, scarce)}")
    device = next((name for name in asked_devices(scenario, group) if name != scarce), None)
    if device is not None and scarce in (CPU, MEMORY, PODS):
        most = max(lack.free[scarce] for lack in only)
        least = min(lack.free[device] for lack in only)
        verb = "has" if len(only) == 1 else "have"
        left = f"at most {amount_text(scarce, most)} free; {wanted}"
        if scarce == PODS:
            left = "no room for another pod"
        return Reason(
            resource=scarce,
            text=f"{scarce}: {counted(len(only), 'node')} {verb} {least} or more free {device} but {left}",
        )
    return Reason(resource=scarce, text=f"{_most_free(scarce, short)}; {wanted}")


def asked_devices(scenario: Scenario, group: PodGroup) -> list[str]:
    """Return the GPU resources that a pod requests."""
    offered = {name for node in scenario.nodes for name in node.gpu_resources}
    return [name for name, amount in group.requests.items() if amount and name in offered]


def _most_free(scarce: str, short: Sequence[Lack]) -> str:
    most = max(lack.free[scarce] for lack in short)
    together = sum(lack.free[scarce] for lack in short)
    spread = ""
    if together > most:
        having = sum(lack.free[scarce] > 0 for lack in short)
        spread = f", {amount_text(scarce, together)} on {counted(having, 'node')} together"
    return f"{scarce}: at most {amount_text(scarce, max(0, most))} free on a node{spread}"


def _others(pending: Pending, scarce: str) -> str:
    others = sorted({name for lack in pending.lacks for name in lack.resources} - {scarce})
    return f"; short of {', '.join(others)} as well" if others else ""
