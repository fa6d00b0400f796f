"""Check a GPU pool for settings that Karpenter does not support. With such settings, pods would wait for nodes
forever.

Sources: Karpenter 1.14 docs and source (NodePools, EC2NodeClass, capacity reservations, Bottlerocket settings);
kubernetes-sigs/karpenter#729, #751 and #2140 (time-slicing, unknown resources); NVIDIA/gpu-operator#2670 (pods
that take a GPU before MIG partitions it); read 2026-11-21.
"""

from __future__ import annotations

from gpu_platform.base.quantity import parse_quantity
from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.catalog.models import AwsFamily
from gpu_platform.planning.clouds.eks.images import DEFAULT_FAMILY
from gpu_platform.planning.clouds.eks.network import layout_of, takes_plain_primary, uses_efa
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.pool import Pool
from gpu_platform.stack.sharing import Dra, Mig, Mps, TimeSlicing

_LABEL_DOMAINS = ("karpenter.sh", "karpenter.k8s.aws")


def managed_instead(pool: Pool) -> str:
    """Return a fix that suggests a managed node group. If `karpenter` is set, the fix also removes this field."""
    return "write provisioner: managed" + (" and remove karpenter" if pool.karpenter is not None else "")


def check_karpenter_pool(pool: Pool, machine: MachineType, catalog: Catalog, problems: Problems) -> None:
    """Record problems for settings of a pool that Karpenter does not support. `check_eks_pool` checks all other
    settings.
    """
    if catalog.nvlink_domain(machine) is not None:
        problems.at("provisioner").add(
            f"'karpenter' on {machine.name}",
            "managed: pods claim a ComputeDomain, and Karpenter creates no nodes for claims",
            managed_instead(pool),
        )
    if pool.network.via == "dranet":
        problems.at("network").at("via").add(
            "'dranet' with Karpenter",
            "device-plugin: Karpenter creates no nodes for claims",
            f"remove via, or {managed_instead(pool)}",
        )
    _check_count(pool, problems.at("count"))
    _check_sharing(pool, problems.at("sharing"))
    _check_primary_interface(pool, machine, catalog.aws_family(machine), problems.at("network"))
    _check_memory_manager(pool, problems.at("topology").at("memory"))
    _check_not_per_pool(pool, problems)
    _check_labels(pool, problems.at("labels"))
    if pool.karpenter is not None:
        _check_limits(pool, machine, catalog, problems.at("karpenter").at("limits"))


def _check_count(pool: Pool, here: Problems) -> None:
    count = pool.count
    if count.min > 0:
        here.at("min").add(
            str(count.min),
            "0: Karpenter removes nodes that no pod needs (static capacity is alpha, and cannot limit GPUs)",
            f"write min: 0, or {managed_instead(pool)}",
        )
    if count.desired > 0:
        here.at("desired").add(
            str(count.desired),
            "0: Karpenter creates nodes for pods that need them, and deletes them afterwards",
            f"write desired: 0, max: {count.maximum}",
        )
    if count.maximum == 0:
        here.at("max").add(
            "0",
            "at least 1: the maximum number of nodes that Karpenter may create",
            "write the maximum number of nodes",
        )


def _check_sharing(pool: Pool, here: Problems) -> None:
    match pool.sharing:
        case TimeSlicing() | Mps() if pool.sharing.rename:
            here.at("rename").add(
                "true: nvidia.com/gpu.shared",
                "false, because Karpenter supports only nvidia.com/gpu, and creates no node for pods that request "
                "another resource",
                "write rename: false (Karpenter then plans with a whole GPU for each share), or "
                + managed_instead(pool),
            )
        case Mig():
            here.at("mode").add(
                "'mig' with Karpenter",
                "none, or time-slicing or mps with rename: false, "
                "because Karpenter does not support nvidia.com/mig-*, "
                "and counts whole GPUs instead of MIG instances if the MIG strategy is single",
                managed_instead(pool),
            )
        case Dra():
            here.at("mode").add(
                "'dra' with Karpenter",
                "none, or time-slicing or mps with rename: false, because Karpenter ignores resource claims",
                managed_instead(pool),
            )
        case _:
            pass


def _check_primary_interface(pool: Pool, machine: MachineType, family: AwsFamily, here: Problems) -> None:
    if not uses_efa(pool, machine) or layout_of(pool, family) == "ena-and-efa":
        return
    plain = "an EC2NodeClass does not support EFA on the primary interface"
    if takes_plain_primary(family):
        here.at("layout").add(
            "'efa-primary' with Karpenter", f"ena-and-efa: {plain}", f"remove layout, or {managed_instead(pool)}"
        )
    else:
        here.at("rdma").add(
            f"EFA on {machine.name}, whose card 0 supports it only on the primary interface",
            f"no EFA on this machine type with Karpenter: {plain}",
            f"write rdma: false, or {managed_instead(pool)}",
        )


def _check_memory_manager(pool: Pool, here: Problems) -> None:
    static = pool.topology is not None and pool.topology.memory == "static"
    if static and (pool.image.family or DEFAULT_FAMILY) == "bottlerocket":
        here.add(
            "'static' on Bottlerocket with Karpenter",
            "none, because Karpenter drops memory-manager-reserved-memory, "
            "and the kubelet does not start without this setting",
            "write memory: none, or image: {family: al2023}",
        )


def _check_not_per_pool(pool: Pool, problems: Problems) -> None:
    if pool.repair:
        problems.at("repair").add(
            "true with Karpenter",
            "false: repair is an alpha feature of the whole controller; it deletes nodes without draining "
            "them, and stops if more than a fifth of a pool is broken",
            f"remove repair, or {managed_instead(pool)}",
        )
    if "upgrade" in pool.model_fields_set:
        problems.at("upgrade").add(
            "upgrade with Karpenter",
            "nothing: Karpenter replaces nodes according to the disruption budget for the workload",
            "remove upgrade",
        )


def _check_labels(pool: Pool, here: Problems) -> None:
    for key in pool.labels:
        domain, slash, _ = key.partition("/")
        if slash and domain.endswith(_LABEL_DOMAINS):
            here.at(key).add(
                f"{key!r}",
                "a label outside the domains whose labels Karpenter sets: " + ", ".join(_LABEL_DOMAINS),
                "remove it",
            )


def machines_of(pool: Pool, machine: MachineType, catalog: Catalog) -> list[MachineType]:
    """Return the machine types that a node of the pool may have, starting with the pool's own type."""
    return [machine, *(catalog.machine_types[name] for name in pool.alternatives if name in catalog.machine_types)]


def _check_limits(pool: Pool, machine: MachineType, catalog: Catalog, here: Problems) -> None:
    """Record problems for limits that contradict `count.max`. All other plans are based on `count.max` nodes."""
    most, machines = pool.count.maximum, machines_of(pool, machine, catalog)
    vcpu, mib = max(one.vcpu for one in machines), max(one.memory_mib for one in machines)
    bounds = {
        "cpu": (str(machine.vcpu * most), str(vcpu * most), machine.vcpu),
        "memory": (f"{machine.memory_mib * most}Mi", f"{mib * most}Mi", machine.memory_mib * 2**20),
    }
    for resource, limit in (pool.karpenter.limits or {}).items() if pool.karpenter is not None else ():
        least, largest, one_node = bounds[resource]
        if parse_quantity(limit) < parse_quantity(least):
            nodes = int(parse_quantity(limit) // one_node)
            legal = parse_quantity(limit) * most <= parse_quantity(largest) * nodes
            here.at(resource).add(
                limit,
                f"at least {least}: the resources of {most} x {machine.name}, as in count.max",
                f"write {least}" + (f", or count.max: {nodes}" if nodes and legal else ""),
            )
        elif parse_quantity(limit) > parse_quantity(largest):
            here.at(resource).add(
                limit,
                f"at most {largest}: the resources that {most} nodes may have, as in count.max",
                f"write {largest}, raise count.max, or remove the limit",
            )
