"""Rules about pods whose GPUs and CPUs the kubelet aligns on NUMA nodes.

In the namespaces of teams, the API server enforces a rule with the same id. Source: kubernetes v1.36.3,
pkg/kubelet/cm. A Topology Manager with policy `restricted` or `single-numa-node` rejects a container whose
resources need different numbers of NUMA nodes (topologymanager/policy.go, mergePermutation). This includes
exclusive CPUs, that is, whole CPUs of a Guaranteed pod (cpumanager/policy_static.go, guaranteedCPUs). Read
2026-11-26.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpu_platform.base import names
from gpu_platform.catalog import MachineType
from policies._inputs import Value
from policies._node_pool import NodePool
from policies._offers import units_per_node
from policies._rule import Breach, Rule, Settings, Severity
from policies._stack import Stack
from policies._workloads import Workload, workloads

_POLICIES = ("restricted", "single-numa-node")


@dataclass(frozen=True, slots=True)
class _Numa:
    """NUMA nodes of a machine.

    `gpus` is the number of GPUs of each NUMA node with GPUs, in descending order. `cpus` is the number of CPUs per
    NUMA node.
    """

    pool: str
    gpus: tuple[int, ...]
    cpus: int
    single: bool

    def refuses(self, gpus: int, cpus: int) -> bool:
        """Return whether the kubelet rejects a container. `cpus` is the number of its exclusive CPUs."""
        of_gpus, of_cpus = self.needed(gpus), -(-cpus // self.cpus)
        return max(of_gpus, of_cpus) > 1 if self.single else bool(cpus) and of_gpus != of_cpus

    def needed(self, gpus: int) -> int:
        """Return the minimum number of NUMA nodes that have the given number of GPUs."""
        return next(number for number in range(len(self.gpus) + 1) if sum(self.gpus[:number]) >= gpus)

    def allowed(self, gpus: int) -> str:
        """Describe the requests that the kubelet accepts from a container that needs `gpus` GPUs.

        If the GPUs must be on one NUMA node but do not fit on one, the text limits the number of GPUs. Otherwise
        the text limits the number of whole CPUs.
        """
        needed = self.needed(gpus)
        if self.single and needed > 1:
            return f"at most {self.gpus[0]} GPUs (one NUMA node) on a node of pool {self.pool}"
        return (
            f"{self.cpus * (needed - 1) + 1} to {self.cpus * needed} whole CPUs with {gpus} GPUs on a node of "
            f"pool {self.pool} (CPUs and GPUs on the same NUMA nodes), or a fractional number of CPUs"
        )


def _never_aligned(stack: Stack, workload: Workload, _: Settings) -> Iterator[Breach]:
    containers = [*_ordinary(workload)]
    exclusive = not workload.pod_spec.get("resources").present and all(_is_guaranteed(one) for one in containers)
    for container in containers:
        limits = container.get("resources", "limits")
        gpus = int(limits.get(names.GPU_RESOURCE).quantity() or 0)
        cpu = limits.get("cpu").quantity() or 0
        cpus = int(cpu) if exclusive and cpu == int(cpu) else 0
        hosts = _hosts(stack, workload, gpus, alone=len(containers) == 1) if gpus else ()
        if hosts and all(one.refuses(gpus, cpus) for one in hosts):
            yield Breach(
                at=limits.get("cpu" if cpus else names.GPU_RESOURCE),
                found=f"{gpus} GPUs" + (f" and {cpus} whole CPUs" if cpus else "") + " in one container",
                allowed=hosts[0].allowed(gpus),
                fix=(
                    f"write cpu: {cpus * 1000 - 1}m, which the kubelet does not align, or an allowed number of "
                    "whole CPUs"
                )
                if cpus
                else "split the work over several pods, or select another pool",
            )


def _ordinary(workload: Workload) -> Iterator[Value]:
    for key in ("initContainers", "containers"):
        yield from workload.pod_spec.get(key).items()


def _is_guaranteed(container: Value) -> bool:
    """Return whether the CPU and memory limits of a container equal its requests."""
    limits, requests = container.get("resources", "limits"), container.get("resources", "requests")
    for name in ("cpu", "memory"):
        limit, request = limits.get(name).quantity(), requests.get(name)
        if not limit or (request.present and request.quantity() != limit):
            return False
    return True


def _hosts(stack: Stack, workload: Workload, gpus: int, *, alone: bool) -> Sequence[_Numa]:
    """Return the NUMA nodes of all machines that the pod may run on, or nothing if they are unknown for any
    machine.

    `alone` means that the pod has a single container. Raises NotVisible.
    """
    found: list[_Numa] = []
    for pool in workload.targets(stack):
        units = units_per_node(stack, pool).get(names.GPU_RESOURCE, 0)
        if units < gpus:
            continue
        numa = (
            _numa_of(pool, gpus) if units == pool.gpus_per_node and (alone or not pool.aligns_whole_pods) else ()
        )
        if not numa:
            return ()
        found += numa
    return found


def _numa_of(pool: NodePool, gpus: int) -> Sequence[_Numa]:
    """Return the NUMA nodes of each machine of a pool that has at least `gpus` GPUs.

    Return nothing if the NUMA nodes of any of these machines are unknown, or if the kubelet rejects no pod.
    """
    policy = _policy(pool)
    if policy is None or len(pool.machines) != len(pool.machine_types):
        return ()
    large = [machine for machine in pool.machines if machine.gpu_count >= gpus]
    found = [_of_machine(pool.name, machine, single=policy == "single-numa-node") for machine in large]
    return [one for one in found if one is not None] if None not in found else ()


def _policy(pool: NodePool) -> str | None:
    """Return the kubelet's Topology Manager policy, if its configuration is visible and containers get exclusive
    CPUs.
    """
    if pool.simulated:
        policy = pool.label(names.TOPOLOGY_POLICY_LABEL).text()
    elif not pool.created:
        return None
    else:
        policy = pool.kubelet_policy("topology").text()
        if pool.kubelet_policy("cpu").text() != "static":
            return None
    return policy if policy in _POLICIES else None


def _of_machine(pool: str, machine: MachineType, *, single: bool) -> _Numa | None:
    nodes = Counter(machine.numa_nodes or ())
    if len(nodes) < 2:
        return None  # one NUMA node, or an unknown topology
    return _Numa(pool, tuple(sorted(nodes.values(), reverse=True)), machine.vcpu // (max(nodes) + 1), single)


gpu_numa_alignment = Rule(
    id="gpu-numa-alignment",
    severity=Severity.HIGH,
    description="The GPUs and whole CPUs of a container fit on the same NUMA nodes. Otherwise the kubelet rejects "
    "the pod.",
    subjects=lambda stack: stack.view(workloads),
    check=_never_aligned,
    settings=Settings,
)

RULES = (gpu_numa_alignment,)
