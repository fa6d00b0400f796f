"""Reads the nodes, pods and quotas of a cluster, which are the starting point of `place --live`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from extensions.capacity.pod_sources.manifest_mapping import ManifestMapping
from extensions.capacity.pod_sources.manifests import claimed
from extensions.capacity.pod_sources.pod_spec import Skipped, read_existing_pod
from extensions.capacity.scheduling.model import Amounts, Node, PodGroup, RunningPod, quota_resource
from extensions.capacity.scheduling.nodes import planned_node
from gpu_platform.api.live import KubernetesClient, LiveObjects, items_at, mapping_at, read_objects, running_pods
from gpu_platform.api.plans import EnvironmentPlan, Taint
from gpu_platform.base import names
from gpu_platform.base.errors import Problem
from gpu_platform.base.quantity import amount_of
from gpu_platform.catalog import Catalog

_ENDED: Final = ("Succeeded", "Failed")
_UNSCHEDULABLE: Final = Taint(key="node.kubernetes.io/unschedulable", value="", effect="NoSchedule")
_ALONE: Final = "Pod "


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """State of a cluster at one point in time. `groups` contains the pods without a node, oldest first."""

    nodes: tuple[Node, ...]
    running: tuple[RunningPod, ...]
    groups: tuple[PodGroup, ...]
    quotas: Mapping[str, Amounts]
    skipped: tuple[Skipped, ...]


def read_cluster(client: KubernetesClient, plan: EnvironmentPlan, catalog: Catalog) -> ClusterSnapshot:
    """Read a cluster without changing it. Raises UnknownOutcome or Refused."""
    objects = read_objects(client)
    nodes = tuple(_node(one, plan, catalog) for one in sorted(objects.nodes, key=_name))
    waiting = [
        pod
        for pod in client.objects("v1", "Pod", field_selector="spec.nodeName=")
        if mapping_at(pod, "status").get("phase") not in _ENDED and "deletionTimestamp" not in pod["metadata"]
    ]
    all_pods = (*objects.pods, *waiting)
    has_claims = any(items_at(pod, "spec", "resourceClaims") for pod in all_pods)
    claims = _Claims(client.objects("resource.k8s.io/v1", "ResourceClaim") if has_claims else ())
    groups, skipped = _pending(waiting, claims)
    return ClusterSnapshot(
        nodes=nodes,
        running=tuple(_running(objects, {node.name: index for index, node in enumerate(nodes)}, claims)),
        groups=groups,
        quotas=_quotas(client.objects("v1", "ResourceQuota")),
        skipped=skipped,
    )


class _Claims:
    """The devices of ResourceClaims, by `namespace/name`. If several pods share a claim, its devices are counted
    once.
    """

    def __init__(self, claims: Iterable[Mapping[str, Any]]) -> None:
        self._found = {
            f"{one['metadata'].get('namespace')}/{_name(one)}": claimed(ManifestMapping(one.get("spec"), "", []))
            for one in claims
        }
        self._counted: set[str] = set()

    def of(self, pod: Mapping[str, Any]) -> Mapping[str, int] | str:
        """Return the number of devices in a pod's claims by device class, or the reason why it is unknown or not
        simulated.
        """
        total: dict[str, int] = {}
        made = {
            str(one.get("name")): one.get("resourceClaimName")
            for one in items_at(pod, "status", "resourceClaimStatuses")
        }
        for one in items_at(pod, "spec", "resourceClaims"):
            claim = one.get("resourceClaimName") or made.get(str(one.get("name")))
            if claim is None:
                template = one.get("resourceClaimTemplateName")
                return (
                    f"its claim from template {template} was not created, because the template or quota is missing"
                )
            key = f"{pod['metadata'].get('namespace')}/{claim}"
            found = self._found.get(key)
            if found is None:
                return f"its claim {claim} does not exist"
            if isinstance(found, str):
                return found
            if key not in self._counted:
                self._counted.add(key)
                for device_class, count in found.items():
                    total[device_class] = total.get(device_class, 0) + count
        return total


def _node(live: Mapping[str, Any], plan: EnvironmentPlan, catalog: Catalog) -> Node:
    labels = {str(key): str(value) for key, value in mapping_at(live, "metadata", "labels").items()}
    selected = (pool.name for pool in plan.pools if pool.node_selector.items() <= labels.items())
    pool_name = labels.get(names.POOL_LABEL) or next(selected, "")
    pool = next((one for one in plan.pools if one.name == pool_name), None)
    allocatable = {
        str(name): amount_of(str(name), str(amount))
        for name, amount in mapping_at(live, "status", "allocatable").items()
    }
    planned = planned_node(pool, catalog, _name(live)) if pool is not None else None
    if pool is not None and planned is not None and pool.devices:
        # The number of devices comes from the plan, not from ResourceSlices.
        # Node validation compares the plan with the ResourceSlices.
        allocatable[names.GPU_DEVICE_CLASS] = len(planned.gpus)
    taints = [
        Taint(key=str(one["key"]), value=str(one.get("value") or ""), effect=str(one["effect"]))
        for one in items_at(live, "spec", "taints")
    ]
    if mapping_at(live, "spec").get("unschedulable") and _UNSCHEDULABLE not in taints:
        taints.append(_UNSCHEDULABLE)
    return Node(
        name=_name(live),
        pool=pool_name,
        allocatable=allocatable,
        labels=labels,
        taints=tuple(taints),
        gpus=_gpus(allocatable, planned, labels),
        planned=False,
    )


def _gpus(allocatable: Amounts, planned: Node | None, labels: Mapping[str, str]) -> tuple[Amounts, ...]:
    """Return the units that each GPU of a node offers.

    If the node offers the planned number of units, they are spread over its GPUs as planned. Otherwise, they are
    spread evenly.
    """
    offered = {
        name: count
        for name, count in allocatable.items()
        if count and (names.is_gpu_resource(name) or name == names.GPU_DEVICE_CLASS)
    }
    if planned is not None and all(
        offered.get(name, 0) == planned.allocatable.get(name, 0) for name in {*offered, *planned.gpu_resources}
    ):
        return planned.gpus
    label = labels.get(names.GPU_COUNT_LABEL, "")
    gpus = int(label) if label.isdigit() and int(label) else max(offered.values(), default=0)
    return tuple(
        {
            name: count // gpus + (index < count % gpus)
            for name, count in offered.items()
            if count // gpus + (index < count % gpus)
        }
        for index in range(gpus)
    )


def _running(objects: LiveObjects, index: Mapping[str, int], claims: _Claims) -> Iterator[RunningPod]:
    drained = {f"{one.namespace}/{one.name}": one for one in running_pods(objects.pods, objects.budgets)}
    for pod in sorted(objects.pods, key=_age):
        node = str(mapping_at(pod, "spec").get("nodeName") or "")
        if node not in index or mapping_at(pod, "status").get("phase") in _ENDED:
            continue
        known = drained.get(f"{pod['metadata']['namespace']}/{_name(pod)}")
        devices = claims.of(pod)
        controller = "" if known is None or known.owner.startswith(_ALONE) else known.owner
        pinned = str(known.block.why) if known is not None and known.block is not None else ""
        yield RunningPod(
            node=index[node],
            pod=_group(pod, {} if isinstance(devices, str) else devices),
            controller=controller,
            pinned=devices if isinstance(devices, str) else pinned,
        )


def _pending(
    pods: Sequence[Mapping[str, Any]], claims: _Claims
) -> tuple[tuple[PodGroup, ...], tuple[Skipped, ...]]:
    """Return the pods waiting for a node, and the pods that are not simulated. Equal pods of a controller form one
    group.
    """
    counts: Counter[str] = Counter()
    groups: dict[str, PodGroup] = {}
    skipped: list[Skipped] = []
    for pod in sorted(pods, key=_age):
        name = f"{pod['metadata']['namespace']}/{_name(pod)}"
        if items_at(pod, "spec", "schedulingGates"):
            gates = ", ".join(str(one.get("name")) for one in items_at(pod, "spec", "schedulingGates"))
            skipped.append(Skipped(name=name, why=f"the pod has scheduling gates: {gates}"))
            continue
        devices = claims.of(pod)
        if isinstance(devices, str):
            skipped.append(Skipped(name=name, why=devices))
            continue
        group = _group(pod, devices)
        key = repr(replace(group, name=_controller(pod)))
        groups.setdefault(key, group)
        counts[key] += 1
    return tuple(replace(group, count=counts[key]) for key, group in groups.items()), tuple(skipped)


def _group(pod: Mapping[str, Any], devices: Mapping[str, int]) -> PodGroup:
    problems: list[Problem] = []  # the list stays empty, because the API server has validated the pod
    return read_existing_pod(
        ManifestMapping(pod.get("spec"), "spec", problems),
        devices,
        team=str(pod["metadata"]["namespace"]),
        name=_name(pod),
        kind="Pod",
    )


def _quotas(live: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Return the amounts that the pods in each namespace may still request.

    If several quotas limit the same key, the smallest amount applies.
    """
    left: dict[str, dict[str, int]] = {}
    for one in live:
        # Quotas with scopes are ignored, because they limit only some of the pods.
        if mapping_at(one, "spec").get("scopes") or mapping_at(one, "spec").get("scopeSelector"):
            continue
        used = mapping_at(one, "status", "used")
        of_namespace = left.setdefault(str(one["metadata"]["namespace"]), {})
        for key, hard in mapping_at(one, "status", "hard").items():
            resource = quota_resource(str(key))
            if resource is not None:
                rest = amount_of(resource, str(hard)) - amount_of(resource, str(used.get(key) or "0"))
                of_namespace[str(key)] = min(rest, of_namespace.get(str(key), rest))
    return left


def _controller(pod: Mapping[str, Any]) -> str:
    owner = next((one for one in items_at(pod, "metadata", "ownerReferences") if one.get("controller")), None)
    return f"{owner['kind']}/{owner['name']}" if owner is not None else _name(pod)


def _age(live: Mapping[str, Any]) -> tuple[str, str]:
    return str(live["metadata"].get("creationTimestamp") or ""), _name(live)


def _name(live: Mapping[str, Any]) -> str:
    return str(live["metadata"]["name"])
