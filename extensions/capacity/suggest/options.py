"""Options for demands: a machine type, its sharing mode, and the trust domain that shares its GPUs.

Pods of different trust domains share a GPU only as MIG instances, because only these have separate memory and
fault isolation (NVIDIA MIG user guide; k8s-device-plugin README on time-slicing and MPS, read 2026-11-21).
Inference pods that share a GPU use MPS, which runs them side by side, and are never time-sliced. Development pods
are time-sliced. Training pods do not share GPUs, and training on several GPUs requires machines with NVLink. A pod
with several GPUs uses whole GPUs. A GPU has no more replicas than the policy pack allows by default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, Literal

from extensions.capacity.suggest.demands import WorkloadDemand
from gpu_platform.api.capacity import (
    NodeResources,
    NumaNodes,
    free,
    largest_multisets,
    mps_clients,
    numa_nodes,
    vendor_of,
)
from gpu_platform.base.quantity import parse_memory_mib, parse_quantity
from gpu_platform.catalog import Catalog, Gpu, MachineType
from gpu_platform.catalog.models import Mig

Mode = Literal["none", "mig", "mps", "time-slicing"]
GPU_SLOT = "gpu"
SHARE_SLOT = "share"
MOST_REPLICAS: Final[Mapping[Mode, int]] = {"mps": 8, "time-slicing": 4}
"""Maximum number of replicas of one GPU that the rule `sharing-replicas-bounded` allows by default."""
_EPSILON = 1e-9
Layout = tuple[tuple[str, int], ...]
"""The MIG profiles on one GPU, each with its number of instances."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRequest:
    """Numeric form of a demand.

    `memory_mib` and `compute` are for each GPU; `compute` is a fraction of one GPU. `model` is the only accepted
    GPU model, or None for any. A pod with `rdma` needs the node's RDMA interfaces, and therefore all GPUs of the
    node.
    """

    name: str
    kind: str
    count: int
    domain: str
    memory_mib: int
    compute: float
    model: str | None
    latency: bool
    gpus: int
    nvlink: bool
    pod: NodeResources
    rdma: bool = False

    @property
    def shares_by(self) -> Mode | None:
        """Mode in which a pod can share a GPU with other pods of its trust domain, or None if it cannot share."""
        if self.gpus > 1 or self.nvlink or self.rdma or self.kind == "training":
            return None
        return "time-slicing" if self.kind == "development" and not self.latency else "mps"

    def fits_machine(self, machine: MachineType, gpu: Gpu) -> bool:
        """Return whether one pod fits on a machine if it uses whole GPUs."""
        resources = free_of_machine(machine, self.kind)
        return (
            self.model in (None, gpu.model)
            and self.memory_mib <= gpu.memory_mib
            and self.gpus <= machine.gpu_count
            and (machine.all_linked or not self.nvlink)
            and (not self.rdma or (machine.rdma_interfaces > 0 and self.gpus == machine.gpu_count))
            and self.pod.cpu_millicores <= resources.cpu_millicores
            and self.pod.memory_mib <= resources.memory_mib
        )

    def most_replicas(self, gpu: Gpu) -> int:
        """Return how many pods fit on one GPU if each gets an equal part of the GPU's memory and compute."""
        by_compute = int(1 / self.compute + _EPSILON)
        most = MOST_REPLICAS[self.shares_by] if self.shares_by is not None else 1
        return min(gpu.memory_mib // self.memory_mib, by_compute, most, mps_clients(gpu))

    def fits_profile(self, gpu: Gpu, name: str) -> bool:
        """Return whether a MIG instance of the profile is large enough for a pod."""
        profile = gpu.mig.profile(name) if gpu.mig is not None else None
        if gpu.mig is None or profile is None or self.gpus > 1 or self.nvlink or self.rdma:
            return False
        compute = profile.compute_slices / gpu.mig.compute_slices
        return self.memory_mib <= profile.memory_mib and self.compute <= compute + _EPSILON


def free_of_machine(machine: MachineType, kind: str) -> NodeResources:
    """Return the resources that DaemonSets leave on a node, minus the huge pages that training over RDMA uses."""
    uses_rdma = machine.rdma_interfaces > 0 and kind == "training"
    left = free.free_of_machine(machine, huge_pages_mib=vendor_of(machine).rdma_huge_pages_mib if uses_rdma else 0)
    return NodeResources(left.cpu_millicores, left.memory_mib)


def request_of(demand: WorkloadDemand, catalog: Catalog) -> PodRequest:
    """Return the numeric form of a demand. Its `measured_on` must be a GPU model in the catalogue."""
    measured = catalog.find_gpu(demand.measured_on) if demand.measured_on is not None else None
    return PodRequest(
        name=demand.name,
        kind=demand.kind,
        count=demand.count,
        domain=demand.trust_domain,
        memory_mib=parse_memory_mib(demand.gpu_memory),
        compute=demand.compute,
        model=measured.model if measured is not None else None,
        latency=demand.objective == "latency",
        gpus=demand.gpus,
        nvlink=demand.nvlink or (demand.kind == "training" and demand.gpus > 1),
        rdma=demand.rdma,
        pod=NodeResources(int(parse_quantity(demand.cpu) * 1000), int(parse_quantity(demand.memory) / 2**20)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Machines of one reservation that may be used at no additional cost."""

    name: str
    machine: MachineType
    count: int
    zone: str


RESERVED_USD_PER_HOUR: Final = 1e-6
"""Price of a reserved machine in USD/h.

Reserved machines have no additional cost. Without this small price, the solver could choose more of them than the
pods need.
"""


@dataclass(frozen=True, slots=True)
class Option:
    """A candidate pool.

    `usd_per_hour` is the price of one node. `domain` is the trust domain that shares its GPUs, or None if they are
    not shared; MIG instances do not count as shared. With MIG, `layouts` contains the layout of each GPU of a
    node, or a single layout for all GPUs. If `menu` is set, each GPU still needs a layout from the menu, and all
    nodes get the same layouts. `reservation` is the reservation that contains the nodes, or None if they are
    bought.
    """

    machine: MachineType
    gpu: Gpu
    kind: str
    mode: Mode
    replicas: int
    layouts: tuple[Layout, ...]
    domain: str | None
    usd_per_hour: float
    menu: tuple[Layout, ...] = ()
    reservation: Reservation | None = None

    @property
    def slots(self) -> Mapping[str, int]:
        """Number of slots on one node by kind: `gpu`, `share` or a MIG profile.

        With a menu of layouts, the result is the maximum number for each profile.
        """
        gpus = self.machine.gpu_count
        if self.menu:
            most = {name: max(dict(one).get(name, 0) for one in self.menu) for name in self.profiles}
            return {name: count * gpus for name, count in most.items()}
        if self.mode == "mig":
            every = self.layouts * gpus if len(self.layouts) == 1 else self.layouts
            return {name: sum(dict(one).get(name, 0) for one in every) for name in self.profiles}
        return {GPU_SLOT: gpus} if self.mode == "none" else {SHARE_SLOT: gpus * self.replicas}

    @property
    def profiles(self) -> tuple[str, ...]:
        """MIG profiles of the GPUs."""
        return tuple(dict.fromkeys(name for layout in self.menu or self.layouts for name, _ in layout))

    @property
    def allocatable(self) -> NodeResources:
        """CPU and memory that pods can use on one node."""
        return free_of_machine(self.machine, self.kind)

    @property
    def numa(self) -> NumaNodes | None:
        """NUMA nodes to which the kubelet aligns pods, or None. Kubelets align pods only in training pools in a
        cloud.
        """
        aligned = self.kind == "training" and self.machine.gpu_count > 1 and vendor_of(self.machine).is_cloud
        return numa_nodes(self.machine, "restricted" if aligned else "none")

    @property
    def pods(self) -> int:
        """Maximum number of workload pods on one node."""
        return free.free_of_machine(self.machine).pods

    def slots_for(self, request: PodRequest) -> tuple[str, ...]:
        """Return the kinds of slots that a pod can use. A pod needs one slot for each of its GPUs."""
        if request.kind != self.kind or not request.fits_machine(self.machine, self.gpu):
            return ()
        match self.mode:
            case "none":
                return (GPU_SLOT,)
            case "mig":
                return tuple(name for name in self.profiles if request.fits_profile(self.gpu, name))
            case "mps" | "time-slicing":
                fits = self.mode == request.shares_by and self.domain == request.domain
                return (SHARE_SLOT,) if fits and self.replicas <= request.most_replicas(self.gpu) else ()


def options_for(
    requests: Sequence[PodRequest],
    machines: Sequence[tuple[MachineType, float]],
    catalog: Catalog,
    reservations: Sequence[Reservation] = (),
) -> tuple[Option, ...]:
    """Return all useful options: first those on `reservations`, then those on `machines`, which are bought at
    their price in USD/h.
    """
    reserved = [
        replace(option, reservation=one)
        for one in reservations
        for option in _options_of(one.machine, RESERVED_USD_PER_HOUR, requests, catalog)
    ]
    bought = [
        option
        for machine, price in _undominated(machines, rdma=any(request.rdma for request in requests))
        for option in _options_of(machine, price, requests, catalog)
    ]
    return (*reserved, *bought)


def _options_of(
    machine: MachineType, price: float, requests: Sequence[PodRequest], catalog: Catalog
) -> Iterator[Option]:
    """Yield the options of one machine type."""
    gpu = catalog.gpu_of(machine)
    for kind in dict.fromkeys(request.kind for request in requests):
        here = [request for request in requests if request.kind == kind and request.fits_machine(machine, gpu)]
        if not here:
            continue
        yield Option(machine, gpu, kind, "none", 1, (), None, price)
        layouts = tuple(_layouts(here, gpu))
        for layout in layouts:
            yield Option(machine, gpu, kind, "mig", 1, (layout,), None, price)
        if len(layouts) > 1 and machine.gpu_count > 1 and vendor_of(machine).layouts_by_gpu:
            yield Option(machine, gpu, kind, "mig", 1, (), None, price, layouts)
        for domain, mode, replicas in _shares(here, gpu):
            yield Option(machine, gpu, kind, mode, replicas, (), domain, price)


def _undominated(
    machines: Sequence[tuple[MachineType, float]], *, rdma: bool
) -> Iterator[tuple[MachineType, float]]:
    """Yield the machines, except those that cost at least as much as an equal or better machine with the same
    GPUs.
    """
    for index, (machine, price) in enumerate(machines):
        if not any(
            other.gpu == machine.gpu
            and other.gpu_count == machine.gpu_count
            and other.vcpu >= machine.vcpu
            and other.memory_mib >= machine.memory_mib
            and other.nvlinks_per_gpu >= machine.nvlinks_per_gpu
            and (not rdma or other.rdma_interfaces >= machine.rdma_interfaces)
            and (cost, place) < (price, index)
            for place, (other, cost) in enumerate(machines)
        ):
            yield machine, price


def _layouts(requests: Sequence[PodRequest], gpu: Gpu) -> list[Layout]:
    """Return the MIG layouts of profiles that some demand can use. Layouts that another layout contains are left
    out.
    """
    if gpu.mig is None:
        return []
    plain = {profile.name for profile in gpu.mig.profiles if not {"+", "-"} & set(profile.name)}
    useful = {name for name in plain if any(request.fits_profile(gpu, name) for request in requests)}
    return list(_largest(gpu.mig, frozenset(useful)))


@cache
def _largest(mig: Mig, useful: frozenset[str]) -> tuple[Layout, ...]:
    """Return the MIG layouts of the `useful` profiles, except layouts that another layout contains. Cached."""
    layouts = {
        tuple((name, count) for name, count in layout if name in useful) for layout in largest_multisets(mig)
    } - {()}
    return tuple(
        one for one in sorted(layouts) if not any(one != other and _within(one, dict(other)) for other in layouts)
    )


def _within(layout: Layout, other: Mapping[str, int]) -> bool:
    return all(other.get(name, 0) >= count for name, count in layout)


def _shares(requests: Sequence[PodRequest], gpu: Gpu) -> list[tuple[str, Mode, int]]:
    """Return all ways to share one GPU, each as a tuple: trust domain, mode and number of replicas."""
    return list(
        dict.fromkeys(
            (request.domain, mode, replicas)
            for request in requests
            if (mode := request.shares_by) is not None and (replicas := request.most_replicas(gpu)) > 1
        )
    )
