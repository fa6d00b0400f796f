"""Requests of a pod: containers, init containers and overhead, with the defaults that admission adds.

Sources: kubernetes v1.36.3, component-helpers/resource/helpers.go (`PodRequests`, `AggregateContainerRequests`),
pkg/apis/core/v1/defaults.go (missing requests are set to the limits), pkg/scheduler/util/pod_resources.go
(containers without requests are scored with 100m CPU and 200 MiB), read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from extensions.capacity.pod_sources.manifest_mapping import ManifestMapping
from extensions.capacity.scheduling.model import CPU, MEMORY
from gpu_platform.api.capacity import NodeResources
from gpu_platform.api.plans import PodDefaults, TeamPlan
from gpu_platform.base.quantity import amount_of

_MIB: Final = 2**20
_UNSCORED: Final = {CPU: 100, MEMORY: 200 * _MIB}


@dataclass(slots=True)
class Container:
    """Requests of a container by resource.

    `named` contains CPU and memory if the manifest sets requests or limits for them.
    """

    requests: dict[str, int]
    named: frozenset[str]
    sidecar: bool = False


@dataclass(frozen=True, slots=True)
class PodContainers:
    """The containers of a pod.

    `init` contains the init containers in order, including sidecars. `whole` contains the pod-level requests.
    """

    main: tuple[Container, ...]
    init: tuple[Container, ...]
    whole: Mapping[str, int]
    overhead: Mapping[str, int]

    def requests(self) -> dict[str, int]:
        """Return the requests that the scheduler reserves for the pod."""
        return self._sum({})

    def scored(self) -> dict[str, int]:
        """Return the CPU and memory that the scheduler uses to compare nodes."""
        found = self._sum(_UNSCORED)
        return {name: found.get(name, 0) for name in _UNSCORED}

    def _sum(self, missing: Mapping[str, int]) -> dict[str, int]:
        total: dict[str, int] = {}
        for one in self.main:
            _add(total, {**missing, **one.requests})
        beside: dict[str, int] = {}
        most: dict[str, int] = {}
        for one in self.init:
            amounts = {**missing, **one.requests}
            if one.sidecar:
                _add(total, amounts)
                _add(beside, amounts)
                now = dict(beside)
            else:
                now = dict(beside)
                _add(now, amounts)
            for name, amount in now.items():
                most[name] = max(most.get(name, 0), amount)
        found = {name: max(total.get(name, 0), most.get(name, 0)) for name in (*total, *most)}
        found |= self.whole
        _add(found, self.overhead)
        return found


def read_containers(spec: ManifestMapping) -> PodContainers:
    """Return the containers of a pod spec. If only limits are set, they are also the requests."""
    main = tuple(_container(one) for one in spec.items("containers"))
    init = tuple(_container(one) for one in spec.items("initContainers"))
    resources = spec.at("resources")
    whole = {**resources.amounts("limits"), **resources.amounts("requests")}
    return PodContainers(
        main=main,
        init=init,
        whole={name: amount for name, amount in whole.items() if name in (CPU, MEMORY)},
        overhead=spec.amounts("overhead"),
    )


def add_defaults(pod: PodContainers, selector: Mapping[str, str], team: TeamPlan) -> None:
    """Add the defaults that admission sets for a team's pods: first the defaults of the LimitRange, then the
    defaults for GPU pods.
    """
    for one in (*pod.main, *pod.init):
        for name in (CPU, MEMORY):
            if name not in one.requests and name in team.default_request:
                one.requests[name] = amount_of(name, team.default_request[name])
    if team.pod_defaults is not None and not pod.whole:
        for index, name in enumerate((CPU, MEMORY)):
            _add_shares(pod, selector, team.pod_defaults, index, name)


def _container(one: ManifestMapping) -> Container:
    resources = one.at("resources")
    requests = {**resources.amounts("limits"), **resources.amounts("requests")}
    return Container(
        requests=requests,
        named=frozenset(name for name in requests if name in (CPU, MEMORY)),
        sidecar=one.text("restartPolicy") == "Always",
    )


def _add_shares(
    pod: PodContainers, selector: Mapping[str, str], defaults: PodDefaults, index: int, name: str
) -> None:
    """Set the requests of containers with GPUs in proportion to their GPUs, as `admission_mutations.py` does."""
    unit = 1 if name == CPU else _MIB
    pools = [
        one.units
        for one in defaults.shares
        if all(selector.get(key, value) == value for key, value in one.node_selector.items())
    ]
    shares = [_share(one, pools, index) for one in pod.main]
    is_open = [name not in one.named for one in pod.main]
    taken = sum(
        one.requests.get(name, 0) // unit
        for one, share, free in zip(pod.main, shares, is_open, strict=True)
        if not share or not free
    ) + sum(one.requests.get(name, 0) // unit for one in pod.init if one.sidecar)
    divided = sum(share for share, free in zip(shares, is_open, strict=True) if free)
    for one, share, free in zip(pod.main, shares, is_open, strict=True):
        if share and free:
            amount = (sum(shares) - taken) * share // divided
            if amount > 0:
                one.requests[name] = amount * unit


def _share(one: Container, pools: Iterable[Mapping[str, NodeResources]], index: int) -> int:
    found = 0
    for name, count in one.requests.items():
        parts = [units[name][index] for units in pools if name in units]
        found += min(parts, default=0) * count
    return found


def _add(total: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount
