"""Plan active checks for each pool whose GPUs can be measured. One pod checks each node, and two pods check a pair
of nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, get_args

from gpu_platform.base import names
from gpu_platform.base.quantity import counted, duration_text, parse_duration
from gpu_platform.catalog import Catalog
from gpu_platform.catalog.models import Measure
from gpu_platform.planning.burn_in.program import (
    MATRIX_VARIABLE,
    PART_VARIABLE,
    PROGRAM,
    PROGRAM_CONFIG_MAP,
    PROGRAM_DIRECTORY,
)
from gpu_platform.planning.burn_in.section import BurnInPlan, BurnInPoolPlan, LeastBandwidth
from gpu_platform.planning.context import CompleteContext
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.dra.section import ClaimPlan
from gpu_platform.planning.nodes.section import Taint
from gpu_platform.planning.pools import numa
from gpu_platform.planning.pools.free import free_node
from gpu_platform.planning.pools.section import LOWEST_WITH_NODES, PoolPlan
from gpu_platform.planning.teams.compute_domains import channel_of
from gpu_platform.planning.teams.nic_claims import claims_nics, nic_claim_of
from gpu_platform.planning.teams.section import WorkloadPlan
from gpu_platform.planning.workloads.fabric import plan_pod_fabric
from gpu_platform.planning.workloads.section import MountPlan, PodPlan

IMAGE: Final = "guide-pytorch"  # name of an image in the catalogue
PRIORITY_CLASS: Final = "gpu-platform-burn-in"
# The Cluster Autoscaler adds no nodes for pods with this priority, and may remove nodes that run only such pods.
# Pods without a priority class have the higher priority 0.
PRIORITY: Final = LOWEST_WITH_NODES - 990
_USER: Final = 1000  # the image runs as root by default
_GPU_CLAIM: Final = "burn-in-gpus"
_NCCL_LOGS: Final = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"}
"""Environment variables that make NCCL log the network that it uses."""
_GRACE_SECONDS: Final = 1  # the pod has no state to save when it terminates
# Cordoned nodes are checked too, because nodes are often cordoned for a check.
_CORDONED: Final = Taint(key="node.kubernetes.io/unschedulable", value="", effect="NoSchedule")
# Seconds that the program needs in every run to start PyTorch and NCCL and to repeat copies and reductions.
_START_SECONDS: Final = 40
_SECONDS_PER_GPU: Final = 4
_REDUCE_SECONDS: Final = 20
# Seconds for the image pull in suggested time limits. The default time limit includes about the same time.
_PULL_SECONDS: Final = 900
# MiB for a PyTorch process with CUDA and NCCL, pinned memory for copies, and NCCL's buffers in /dev/shm.
_MIB_PER_GPU: Final = 6144


def check(context: CompleteContext, pools: Sequence[PoolPlan]) -> None:
    """Record a problem if active checks are declared, but no pool has GPUs that can be measured."""
    if context.environment.validation.burn_in is None:
        return
    reasons = {pool.name: _skipped(pool) for pool in pools if pool.has_gpus}
    if all(reasons.values()):
        found = "; ".join(f"{name}: {reason}" for name, reason in reasons.items()) or "no pool has GPUs"
        context.at("validation").at("burn_in").add(
            f"active checks, but they can measure no pool ({found})",
            "burn_in together with a pool whose pods have whole GPUs",
            "remove burn_in",
        )
    else:
        _check_least(context, [pool for pool in pools if pool.has_gpus and not reasons[pool.name]])
    _check_timeout(context, [pool for pool in pools if pool.has_gpus and not reasons[pool.name]])


def _check_least(context: CompleteContext, pools: Sequence[PoolPlan]) -> None:
    """Record a problem if a minimum bandwidth between nodes is declared, but it cannot be measured in any pool."""
    burn_in = context.environment.validation.burn_in
    if burn_in is None or "all-reduce-nodes" not in burn_in.least:
        return
    reasons = {pool.name: _network(pool, rack=_is_rack(context, pool))[1] for pool in pools}
    if all(reasons.values()):
        found = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        context.at("validation").at("burn_in").at("least").add(
            f"all-reduce-nodes, but it cannot be measured in any pool ({found})",
            "all-reduce-nodes together with a pool whose nodes have an RDMA network between them",
            "remove all-reduce-nodes",
        )


def _is_rack(context: CompleteContext, pool: PoolPlan) -> bool:
    """Return whether NVLink connects the nodes of a pool and the DRA driver lets pods use it."""
    domains = context.environment.operator.compute_domains is not False
    return domains and pool.nvlink_domain is not None and pool.nodes.ownership != "created"


def _check_timeout(context: CompleteContext, pools: Sequence[PoolPlan]) -> None:
    """Record a problem if the checks on a pool's nodes take longer than the time limit, even without an image
    pull.
    """
    burn_in = context.environment.validation.burn_in
    if burn_in is None or not pools:
        return
    matrix = int(parse_duration(burn_in.matrix))
    longest = max(pools, key=lambda pool: _seconds(pool, matrix))
    needed = _seconds(longest, matrix)
    if parse_duration(burn_in.timeout) < needed:
        context.at("validation").at("burn_in").at("timeout").add(
            f"{burn_in.timeout}",
            f"at least {duration_text(needed)}, the run time on a node of pool {longest.name} with matrix: "
            f"{burn_in.matrix}, plus the time for the image pull",
            f"write timeout: {-(-(needed + _PULL_SECONDS) // 60)}m",
        )


def _seconds(pool: PoolPlan, matrix: int) -> int:
    """Return how long the checks run on a node that already has the image. `matrix` is the number of seconds for
    which the GPUs multiply matrices.
    """
    return _START_SECONDS + pool.gpus_per_node * _SECONDS_PER_GPU + matrix + _REDUCE_SECONDS


def plan(context: CompleteContext, pools: Sequence[PoolPlan]) -> Decided[BurnInPlan | None]:
    """Return the active checks of a valid environment, or None if the stack file declares none."""
    burn_in = context.environment.validation.burn_in
    if burn_in is None:
        return Decided(None)
    image = burn_in.image or context.catalog.images[IMAGE].reference
    seconds = int(parse_duration(burn_in.matrix))
    timeout = int(parse_duration(burn_in.timeout))
    planned = tuple(
        _pool(pool, context.catalog, image, seconds, burn_in.least, rack=_is_rack(context, pool))
        for pool in pools
        if pool.has_gpus
    )
    together = [one.together.fabric for one in planned if one.together is not None]
    found = BurnInPlan(
        namespace=names.BURN_IN_NAMESPACE,
        priority_class=PRIORITY_CLASS,
        priority=PRIORITY,
        # Pods that use GPUDirect on GKE need hostPath volumes and a daemon with capabilities.
        # The vendors' test pods for the fabric have the same requirements.
        pod_security="privileged"
        if any(fabric is not None and fabric.on_host for fabric in together)
        else "restricted",
        matrix_seconds=seconds,
        timeout_seconds=timeout,
        pools=planned,
    )
    prices = {pool.name: pool.price_usd_per_hour for pool in pools}
    return Decided(found, tuple(_decision(one, timeout, prices[one.pool]) for one in planned))


def _pool(
    pool: PoolPlan, catalog: Catalog, image: str, seconds: int, least: Mapping[Measure, float], *, rack: bool
) -> BurnInPoolPlan:
    skipped = _skipped(pool)
    network, not_together = ("", skipped) if skipped else _network(pool, rack=rack)
    alone = together = None
    if not skipped:
        name = f"burn-in-{pool.name}"
        alone = _pod(pool, catalog, image, seconds, name, together=False, rack=False)
        if not not_together:
            together = _pod(pool, catalog, image, seconds, f"{name}-nodes", together=True, rack=rack)
    return BurnInPoolPlan(
        pool=pool.name,
        machine_type=pool.machine_type,
        gpus_per_node=pool.gpus_per_node,
        skipped=skipped,
        alone=alone,
        together=together,
        not_together=not_together,
        network=network,
        claims=() if skipped else _claims(pool, together),
        file=None if together is None else pool.cloud_nodes.network_file,
        least=_least(pool, catalog, least, together=together is not None),
        seconds=_seconds(pool, seconds),
    )


def _least(
    pool: PoolPlan, catalog: Catalog, declared: Mapping[Measure, float], *, together: bool
) -> dict[Measure, LeastBandwidth]:
    """Return the minimum bandwidths for a pool's nodes, from the stack file or else from the machine type."""
    machine = catalog.machine_types[pool.machine_type]
    # Nodes of an alternative machine type have other limits.
    alike = not pool.cloud_nodes.alternatives
    found: dict[Measure, LeastBandwidth] = {}
    for measure in get_args(Measure):
        if measure == "all-reduce-nodes" and not together:
            continue
        limit = catalog.burn_in_limit(machine, measure) if alike else None
        if measure in declared:
            source = f"stack: validation.burn_in.least.{measure}"
            found[measure] = LeastBandwidth(gb_per_second=declared[measure], source=source)
        elif limit is not None:
            source = f"machine type {pool.machine_type} ({limit.source})"
            found[measure] = LeastBandwidth(gb_per_second=limit.gb_per_second, source=source)
    return found


def _skipped(pool: PoolPlan) -> str:
    """Return why active checks cannot measure a pool's GPUs, or an empty string if they can."""
    sharing = pool.sharing
    if sharing.mode == "mig" or sharing.partitions:
        return "MIG instances have no NVLink, and no bandwidth is published for a part of a GPU"
    if sharing.mode in ("time-slicing", "mps"):
        return f"with {sharing.mode}, team pods could use a GPU while the checks measure it"
    return ""


def _network(pool: PoolPlan, *, rack: bool) -> tuple[str, str]:
    """Return the network that connects pods on two nodes, or the reason why there is none."""
    devices = [name for name in pool.cloud_nodes.network_requests if "/" in name]
    fabric = pool.cloud_nodes.node_fabric
    nics = pool.cloud_nodes.nic_devices
    network = (
        fabric.name
        if fabric is not None
        else devices[0]
        if devices
        else nics.device_class
        if nics is not None
        else "NVLink"
        if rack
        else ""
    )
    if not network:
        return "", "pods have no GPU NICs for traffic between nodes"
    if pool.nodes.max < 2:
        return "", "the pool has at most one node"
    return network, ""


def _pod(
    pool: PoolPlan, catalog: Catalog, image: str, seconds: int, name: str, *, together: bool, rack: bool
) -> PodPlan:
    """Return a pod that uses all GPUs of a node, and only as much CPU and memory as the checks need."""
    free, gpus = free_node(pool, catalog), pool.gpus_per_node
    cpu = min(gpus * 2000, free.cpu_millicores * 3 // 4)
    memory = min(gpus * _MIB_PER_GPU, free.memory_mib * 3 // 4)
    resource = names.GPU_DEVICE_CLASS if pool.devices else names.GPU_RESOURCE
    nics = together and claims_nics(pool, resource, gpus)
    workload = WorkloadPlan(
        name=name,
        pool=pool.name,
        replicas=2 if together else 1,
        image=image,
        command=("torchrun", f"{PROGRAM_DIRECTORY}/{PROGRAM}"),
        resource=resource,
        units=gpus,
        cpu=numa.alignable_cpu(f"{cpu}m", resource, gpus, pool, catalog),
        memory=f"{memory}Mi",
        priority_class=PRIORITY_CLASS,
        node_selector=pool.node_selector,
        tolerations=(*pool.tolerated_by_daemons, _CORDONED),
        network=pool.cloud_nodes.network_requests if together else {},
        claim=_GPU_CLAIM + "-" + pool.name if pool.devices else None,
        compute_domain=channel_of(name) if together and rack else None,
        shared_memory=f"{memory // 4}Mi",
        # The fabric's daemon runs as root, like the vendors' test pods that share files with it.
        run_as_user=None if together and pool.cloud_nodes.node_fabric is not None else _USER,
        nic_claim=nic_claim_of(pool) if nics else None,
    )
    fabric = plan_pod_fabric(workload, pool, catalog) if together else None
    return PodPlan(
        workload=workload,
        env={
            PART_VARIABLE: "nodes" if together else "node",
            MATRIX_VARIABLE: str(seconds),
            **_NCCL_LOGS,
        },
        mounts=(MountPlan(name="program", path=PROGRAM_DIRECTORY, config_map=PROGRAM_CONFIG_MAP, read_only=True),),
        annotations=pool.keeping_annotations,
        grace_seconds=_GRACE_SECONDS,
        fabric=fabric,
    )


def _claims(pool: PoolPlan, together: PodPlan | None) -> tuple[ClaimPlan, ...]:
    found: list[ClaimPlan] = []
    if pool.devices:
        name = _GPU_CLAIM + "-" + pool.name
        found.append(
            ClaimPlan(name=name, device_class=names.GPU_DEVICE_CLASS, count=pool.gpus_per_node, selectors=())
        )
    nics = pool.cloud_nodes.nic_devices
    if nics is not None and together is not None and together.workload.nic_claim is not None:
        claim = together.workload.nic_claim
        found.append(ClaimPlan(name=claim, device_class=nics.device_class, count=nics.per_node, selectors=()))
    return tuple(found)


def _decision(planned: BurnInPoolPlan, timeout: int, usd_per_hour: float | None) -> Decision:
    subject = f"pool {planned.pool}"
    if planned.skipped:
        return Decision(subject=subject, what="burn-in", chosen="no active checks", why=planned.skipped)
    took = duration_text(planned.seconds)
    cost = "" if usd_per_hour is None else f", {usd_per_hour * planned.seconds / 3600:.2f} USD per node"
    least = [
        f"{measure} {limit.gb_per_second:g} GB/s" for measure, limit in planned.least.items() if planned.alone
    ]
    between = (
        f"then pairs of nodes over {planned.network}"
        if planned.together
        else f"not between nodes: {planned.not_together}"
    )
    return Decision(
        subject=subject,
        what="burn-in",
        chosen=f"about {took} on each idle node once the image is pulled{cost}, all nodes at once, at most "
        f"{duration_text(timeout)}; {between}",
        why="run on request by gpu-platform burn-in: copies, matrix products, all-reduce across "
        f"{counted(planned.gpus_per_node, 'GPU')}; "
        + (f"at least {', '.join(least)}" if least else "no minimum bandwidth is published for the machine type"),
    )
