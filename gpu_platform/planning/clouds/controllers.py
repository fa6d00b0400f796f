"""Check whether the nodes have enough free CPU and memory for the controllers that the program installs.

kube-scheduler puts each pod on the least used node. Source: Kubernetes docs, Resource Bin Packing (LeastAllocated,
the default); read 2026-11-28.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

from gpu_platform.base.quantity import amount_of, amount_text
from gpu_platform.catalog import Catalog, ControllerPod
from gpu_platform.planning.clouds.section import CloudCluster
from gpu_platform.planning.decision import Decided, Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerPods:
    """The identical pods of a controller, described by the requests of one pod and the number of pods."""

    name: str
    cpu_millicores: int
    memory_mib: int
    replicas: int
    apart: bool = False
    """Whether each pod must run on a different node."""
    critical: bool = False
    """Whether new nodes depend on these pods, so that the pods cannot wait for nodes to be added."""


_OF_SYSTEM_NODES: Final = re.compile(r"(kubernetes\.io|k8s\.io|amazonaws\.com|k8s\.aws|cloud\.google\.com)/")


class Room(NamedTuple):
    """CPU in millicores and memory in MiB that pods can request on a node."""

    cpu_millicores: int
    memory_mib: int


def controller_pods(
    name: str, catalog: Catalog, values: Mapping[str, Any] | None = None
) -> tuple[ControllerPods, ...]:
    """Return the controller pods of a chart, add-on or cloud. `values` are the chart's Helm values. The result is
    empty for an unknown name.
    """
    known = catalog.controllers.get(name)
    pods = known.pods if known is not None else ()
    return tuple(_pods(pod, values or {}) for pod in pods if _at(values or {}, pod.enabled_at) is not False)


def excess_requests(name: str, catalog: Catalog, values: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield each request in the Helm values that exceeds the container's limit. Each item is the path of the
    request, the request and the limit.
    """
    known = catalog.controllers.get(name)
    for pod in known.pods if known is not None else ():
        for resource in ("cpu", "memory"):
            request, limit = _amounts(pod, values, resource)
            if limit is not None and request is not None and request > limit:
                path = f"{pod.resources_at}.requests.{resource}"
                yield path, _amount_text(resource, request), _amount_text(resource, limit)


def grown_memory(
    name: str, catalog: Catalog, values: Mapping[str, Any], nodes: int
) -> Iterator[tuple[ControllerPod, str]]:
    """Yield each pod of a chart whose memory limit is too low for a cluster of `nodes` nodes, and the memory that
    it needs.

    `values` are the chart's Helm values. The number of nodes is rounded up to a power of two, because each change
    of the memory restarts the pod and may change the machine type of system nodes.
    """
    known, counted = catalog.controllers.get(name), 1 << max(0, nodes - 1).bit_length()
    for pod in known.pods if known is not None else ():
        needed, (_, limit) = (pod.memory_mib_per_node or 0) * counted, _amounts(pod, values, "memory")
        if pod.resources_at is not None and limit is not None and needed > limit:
            yield pod, _amount_text("memory", needed)


def memory_values(grown: Iterable[tuple[ControllerPod, str]]) -> dict[str, Any]:
    """Return the Helm values that set the memory requests and limits of a chart's pods."""
    values: dict[str, Any] = {}
    for pod, amount in grown:
        inner = values
        for key in str(pod.resources_at).split("."):
            inner = inner.setdefault(key, {})
        inner.update(requests={"memory": amount}, limits={"memory": amount})
    return values


def unmet_selectors(
    name: str, catalog: Catalog, values: Mapping[str, Any], others: Sequence[Mapping[str, str]]
) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield each nodeSelector that matches no node for controllers. Each item is the path of the nodeSelector and
    its unmatched labels.

    System nodes have only the labels that Kubernetes and the cloud set. `others` are the labels of other nodes.
    Critical pods do not run on these nodes.
    """
    known = catalog.controllers.get(name)
    for pod in known.pods if known is not None else ():
        path = next((path for path in pod.selector_at if _at(values, path)), None)
        selected: Mapping[str, str] = _at(values, path) or {}
        own = {key: value for key, value in selected.items() if not _OF_SYSTEM_NODES.search(key)}
        elsewhere = () if pod.critical else others
        if path is not None and own and not any(own.items() <= labels.items() for labels in elsewhere):
            yield path, own


def _pods(pod: ControllerPod, values: Mapping[str, Any]) -> ControllerPods:
    cpu, memory, replicas = (
        _amounts(pod, values, "cpu")[0],
        _amounts(pod, values, "memory")[0],
        _at(values, pod.replicas_at),
    )
    return ControllerPods(
        name=pod.name,
        cpu_millicores=cpu or 0,
        memory_mib=memory or 0,
        replicas=pod.replicas if replicas is None else int(replicas),
        apart=pod.apart,
        critical=pod.critical,
    )


def _amounts(pod: ControllerPod, values: Mapping[str, Any], resource: str) -> tuple[int | None, int | None]:
    """Return a pod's request and limit in millicores or MiB. A missing request defaults to the limit."""
    if resource == "cpu":
        request, limit = pod.cpu_millicores, pod.limit_cpu_millicores
    else:
        request, limit = pod.memory_mib, pod.limit_memory_mib
    resources = _at(values, pod.resources_at)
    request = _amount(resources, "requests", resource, request)
    limit = _amount(resources, "limits", resource, limit)
    return (limit if request is None else request), limit


def _amount(resources: Any, kind: str, resource: str, of_chart: int | None) -> int | None:  # noqa: ANN401 - Helm values
    """Return a request or limit from the Helm values, or the chart's default. A null value removes the default."""
    known = cast("Mapping[str, Any]", resources) if isinstance(resources, Mapping) else {}
    amounts: Mapping[str, Any] | None = known.get(kind, {})
    if amounts is None or resource not in amounts:
        return None if amounts is None else of_chart
    value: str | int | float | None = amounts[resource]
    if value is None:
        return None
    amount = amount_of(resource, value)
    return amount if resource == "cpu" else -(-amount // 2**20)


def _amount_text(resource: str, amount: int) -> str:
    return amount_text("cpu", amount) if resource == "cpu" else f"{amount}Mi"


def _at(values: Mapping[str, Any], path: str | None) -> Any:  # noqa: ANN401 - a Helm value of any form
    value: Any = values
    for key in path.split(".") if path is not None else ():
        value = cast("Mapping[str, Any]", value).get(key) if isinstance(value, Mapping) else None
    return None if path is None else value


def without_room(
    pods: Iterable[ControllerPods], nodes: Sequence[Room], others: Sequence[Room] = ()
) -> tuple[str, ...]:
    """Return the controllers with at least one pod that fits on no node.

    `nodes` and `others` contain the free CPU and memory of nodes. Critical pods run only on `nodes`.
    """
    left = [[*room] for room in (*nodes, *others)]
    missing: dict[str, None] = {}
    for pod in sorted(pods, key=lambda pod: not pod.critical):
        used: set[int] = set()
        for _ in range(pod.replicas):
            free = [
                (left[index][0], -index)
                for index in range(len(nodes) if pod.critical else len(left))
                if left[index][0] >= pod.cpu_millicores
                and left[index][1] >= pod.memory_mib
                and not (pod.apart and index in used)
            ]
            if not free:
                missing[pod.name] = None
                continue
            index = -max(free)[1]
            used.add(index)
            left[index][0] -= pod.cpu_millicores
            left[index][1] -= pod.memory_mib
    return tuple(missing)


def requests_text(pods: Iterable[ControllerPods]) -> str:
    """Return the total requests of the pods as text, such as `3.6 CPU and 5.2 GiB`."""
    pods = tuple(pods)
    cpu = sum(pod.cpu_millicores * pod.replicas for pod in pods)
    memory = sum(pod.memory_mib * pod.replicas for pod in pods)
    return room_text(Room(cpu, memory))


def room_text(room: Room) -> str:
    """Return CPU and memory as readable text."""
    return f"{room.cpu_millicores / 1000:.1f} CPU and {room.memory_mib / 1024:.1f} GiB"


def largest(pods: Iterable[ControllerPods], count: int = 3) -> str:
    """Return the controllers that request the most CPU, and the number of their pods, as text."""
    by_cpu = sorted(pods, key=lambda pod: -pod.cpu_millicores * pod.replicas)
    return ", ".join(f"{pod.name} {pod.replicas} x {pod.cpu_millicores / 1000:g} CPU" for pod in by_cpu[:count])


def on_existing_nodes(
    name: str, planned: CloudCluster | None, controllers: Sequence[ControllerPods]
) -> Decided[CloudCluster | None]:
    """Return an existing cluster unchanged, with a decision about the free CPU and memory that the controllers
    need.
    """
    if not controllers:
        return Decided(planned)
    decision = Decision(
        subject=f"cluster {name}",
        what="room for controllers",
        chosen=f"{requests_text(controllers)} on nodes without GPUs",
        why=(
            f"{largest(controllers)} request the most; on an existing cluster, the program does not add nodes "
            "for controllers"
        ),
    )
    return Decided(planned, (decision,))
