"""Rules about time-slicing and MPS.

Both advertise replicas of a GPU as Kubernetes resources. Neither isolates memory faults, and time-slicing limits
neither memory nor compute.

Source: NVIDIA k8s-device-plugin README and GPU Operator docs, "Time-Slicing GPUs" and "MPS".
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from pydantic import Field

from gpu_platform.base import names
from gpu_platform.catalog.pod_devices import SHARES_PER_CONTAINER
from policies._gpu_operator import DevicePluginConfig, device_plugin_config_of, device_plugin_configs
from policies._node_pool import NodePool
from policies._offers import shares, units_per_node
from policies._pools import pools
from policies._rule import Breach, Rule, Settings, Severity
from policies._stack import Stack
from policies._workloads import Workload, workloads


def _time_slicing_for_training(stack: Stack, pool: NodePool, _: Settings) -> Iterator[Breach]:
    if pool.workload != "training":
        return
    config = device_plugin_config_of(stack, pool)
    sliced = [one for one in (config.sharing if config is not None else ()) if one.mode == "time-slicing"]
    if config is not None and sliced:
        by_label = config.pool is None
        yield Breach(
            at=pool.label(names.DEVICE_PLUGIN_CONFIG_LABEL) if by_label else sliced[0].block,
            found="time-slicing" + (f" ({config.what})" if by_label else "") + f" on training pool {pool.name!r}",
            allowed="whole GPUs or MIG for training",
            fix="use sharing mode none or mig, or change the pool to an inference or development pool",
        )


sharing_for_training = Rule(
    id="sharing-for-training",
    severity=Severity.MEDIUM,
    description="Training pools have whole GPUs or MIG instances. Time-sliced training jobs slow each other down.",
    subjects=lambda stack: stack.view(pools),
    check=_time_slicing_for_training,
    settings=Settings,
)


class ReplicaLimits(Settings):
    """Maximum number of replicas of one GPU."""

    max_time_slicing_replicas: int = Field(default=4, ge=1)
    max_mps_replicas: int = Field(default=8, ge=1, le=48)
    """Maximum number of MPS replicas. MPS serves at most 48 clients on one GPU."""


def _too_many_replicas(_: Stack, config: DevicePluginConfig, limits: ReplicaLimits) -> Iterator[Breach]:
    for sharing in config.sharing:
        limit = limits.max_mps_replicas if sharing.mode == "MPS" else limits.max_time_slicing_replicas
        for resource, replicas in sharing.resources:
            count = replicas.whole()
            if count is not None and count > limit:
                yield Breach(
                    at=replicas,
                    found=f"{count} {sharing.mode} replicas of {resource} in {config.what}",
                    allowed=f"at most {limit}",
                    fix=f"lower replicas to {limit}, or exempt {config.what} with a reason and a date",
                )


sharing_replicas_bounded = Rule(
    id="sharing-replicas-bounded",
    severity=Severity.HIGH,
    description="The number of replicas of a GPU is limited. With too many, latency grows and memory runs out.",
    subjects=lambda stack: stack.view(device_plugin_configs),
    check=_too_many_replicas,
    settings=ReplicaLimits,
)


def _not_renamed(stack: Stack, config: DevicePluginConfig, _: Settings) -> Iterator[Breach]:
    for sharing in config.sharing:
        if sharing.renamed or not any(True for _ in sharing.resources) or not _could_rename(stack, config):
            continue
        ignored = config.document.get("flags", "renameByDefault").present
        yield Breach(
            at=sharing.block.get("renameByDefault") if config.pool is None else sharing.block,
            found=f"{sharing.mode} without renaming in {config.what}"
            + (" (renameByDefault under flags is ignored)" if ignored else ""),
            allowed="renameByDefault: true in the sharing block"
            if config.pool is None
            else "rename-by-default = true in the user data",
            fix=f"set it, and request {names.SHARED_GPU_RESOURCE} where a share is sufficient",
        )


def _could_rename(stack: Stack, config: DevicePluginConfig) -> bool:
    """Return whether a pool that uses the config could rename shares. True if no pool uses the config. Raises
    NotVisible.
    """
    if config.pool is not None:
        return config.pool.renames_shares
    users = [pool for pool in stack.view(pools) if _names(pool, config)]
    return not users or any(pool.renames_shares for pool in users)


def _names(pool: NodePool, config: DevicePluginConfig) -> bool:
    return pool.label(names.DEVICE_PLUGIN_CONFIG_LABEL).text() == config.name


sharing_rename = Rule(
    id="sharing-rename",
    severity=Severity.HIGH,
    description="Shared GPUs have a separate resource name (except with Karpenter), so that pods do not "
    "receive shares as whole GPUs.",
    subjects=lambda stack: stack.view(device_plugin_configs),
    check=_not_renamed,
    settings=Settings,
)


def _several_shares(stack: Stack, workload: Workload, _: Settings) -> Iterator[Breach]:
    for container in workload.containers:
        for resource, amount in container.requested.items():
            quantity = amount.quantity()
            if quantity is None or quantity <= SHARES_PER_CONTAINER:
                continue
            if resource.endswith(names.SHARED_SUFFIX) or _is_share(stack, workload, resource, quantity):
                yield Breach(
                    at=amount,
                    found=f"{quantity:f} of the shared resource {resource}",
                    allowed=f"{SHARES_PER_CONTAINER}, because more shares add no compute, and MPS refuses them",
                    fix=f"request 1, or whole GPUs ({names.GPU_RESOURCE}) in a pool that is not shared",
                )


def _is_share(stack: Stack, workload: Workload, resource: str, quantity: Decimal) -> bool:
    """Return whether all pools that can satisfy a workload's request offer the resource as GPU shares."""
    offers = {pool: units_per_node(stack, pool).get(resource, 0) for pool in workload.targets(stack)}
    offering = [pool for pool, units in offers.items() if units >= quantity] or [*filter(offers.get, offers)]
    return bool(offering) and all(resource in shares(stack, pool) for pool in offering)


gpu_shared_request_one = Rule(
    id="gpu-shared-request-one",
    severity=Severity.HIGH,
    description="A container requests one share of a GPU. A second share adds no compute, and MPS refuses it.",
    subjects=lambda stack: stack.view(workloads),
    check=_several_shares,
    settings=Settings,
)


def _too_little_memory(stack: Stack, workload: Workload, _: Settings) -> Iterator[Breach]:
    declared = workload.annotations.get(names.GPU_MEMORY_ANNOTATION)
    needed = declared.quantity()
    if needed is None:
        return
    for pool in workload.targets(stack):
        if workload.requested.keys().isdisjoint(shares(stack, pool)):
            continue
        config = device_plugin_config_of(stack, pool)
        for sharing in config.sharing if config is not None else ():
            for resource, replicas in sharing.resources:
                count = replicas.whole() or 1
                least = min(gpu.memory_mib for gpu in pool.gpus)
                if resource != names.GPU_RESOURCE or needed * count <= least * 1024 * 1024:
                    continue
                yield Breach(
                    at=declared,
                    found=f"{count} replicas of a GPU for pods of {declared.text()} each",
                    allowed=f"at most {least // count} MiB each on pool {pool.name!r}: the GPU has {least} MiB",
                    fix=f"lower replicas to {max(1, int(least * 1024 * 1024 // needed))}, or use a GPU with more "
                    "memory",
                )


sharing_memory_fits = Rule(
    id="sharing-memory-fits",
    severity=Severity.HIGH,
    description="The models of all replicas fit in the memory of their GPU. Otherwise the last pod runs out of "
    "memory.",
    subjects=lambda stack: stack.view(workloads),
    check=_too_little_memory,
    settings=Settings,
    before_only="needs all pods that share a GPU, which belong to several objects; admission sees only one object",
)

RULES = (
    sharing_for_training,
    sharing_replicas_bounded,
    sharing_rename,
    sharing_memory_fits,
    gpu_shared_request_one,
)
