"""Plan the requirements for the nodes of a pool, such as software, kubelet settings, labels, taints and GPU
resources.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from gpu_platform.base import names
from gpu_platform.base.quantity import counted
from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.planning.clouds.gpu_parts import gpu_parts
from gpu_platform.planning.clouds.protocol import Cloud
from gpu_platform.planning.context import CompleteContext
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.dra.claims import class_resources, offered_devices
from gpu_platform.planning.nodes.section import (
    FAILED_TAINT,
    READINESS_TAINT,
    STARTUP_TAINT,
    Kubelet,
    Labels,
    Taint,
)
from gpu_platform.planning.nodes.software import NO_GPU_SOFTWARE, NodeSoftware, driver_version, node_software
from gpu_platform.planning.requirements.bootstrap import plan_bootstrap
from gpu_platform.planning.requirements.kernel import plan_kernel
from gpu_platform.planning.requirements.section import ClassPlace, NodeRequirements
from gpu_platform.planning.sharing import ResolvedPool
from gpu_platform.planning.sharing.section import SharingPlan
from gpu_platform.planning.sharing.sharing import (
    changes_label,
    no_sharing,
    offered_resources,
    plan_sharing,
    sharing_decisions,
)
from gpu_platform.stack._types import NodeGate, is_label_value
from gpu_platform.stack.compute_class import ComputeClass
from gpu_platform.stack.declared import takes
from gpu_platform.stack.operations import Validation
from gpu_platform.stack.pool import Pool

_LONGEST_LABEL: Final = 63
GPU_TAINT = Taint(key=names.GPU_TAINT_KEY, value=names.GPU_TAINT_VALUE, effect="NoSchedule")


def plan(context: CompleteContext, resolved: ResolvedPool) -> Decided[NodeRequirements]:
    """Return the requirements for the nodes of a valid pool."""
    pool, catalog, operator = resolved.pool, context.catalog, context.operator
    machine = catalog.machine_types[pool.machine_type]
    if not machine.has_gpus:
        return _without_gpus(resolved, machine, catalog)
    gpu = catalog.gpu_of(machine)
    software = node_software(pool, context.cloud, operator, catalog)
    sharing = plan_sharing(resolved, gpu, software.device_plugin)
    kubelet = _kubelet(pool, machine.gpu_count, context.cloud)
    kernel = plan_kernel(pool, catalog)
    bootstrap = plan_bootstrap(pool)
    by_dra = sharing.mode == "dra"
    gate = node_gate(pool, context.environment.validation, partitioned=_is_partitioned(sharing))
    devices = offered_devices(machine, gpu, partitions=sharing.partitions) if by_dra else ()
    place = class_place(pool.name, context.environment.compute_classes)
    class_labels: Labels = dict(context.cloud.classes.labels(place.name)) if place is not None else {}
    class_taints = context.cloud.classes.taints(place.name) if place is not None else ()
    requirements = NodeRequirements(
        path=resolved.path,
        pool=pool,
        machine=machine,
        gpu=gpu,
        software=software,
        driver_version=_driver_version(context, pool, software),
        sharing=sharing,
        resources=class_resources(devices) if by_dra else offered_resources(sharing, gpu, machine.gpu_count),
        devices=devices,
        kubelet=kubelet.value,
        labels={
            **_labels(pool, sharing, software, kubelet.value, configures=_configures_plugin(context)),
            **class_labels,
        },
        taints=(GPU_TAINT, *_declared_taints(pool), *class_taints),
        startup_taints=()
        if gate == "never"
        else (READINESS_TAINT if context.environment.validation.node_readiness else STARTUP_TAINT,),
        failed_taints=(FAILED_TAINT,) if gate == "always" else (),
        compute_class=place,
        kernel=kernel.value,
        bootstrap=bootstrap.value,
    )
    _check_label_values(context, resolved, requirements.labels)
    _check_selector(context, resolved, sharing)
    return Decided(
        requirements,
        (
            *_gate_decisions(context, pool, requirements),
            *_partition_decisions(context, pool, requirements),
            *sharing_decisions(pool.name, sharing, resolved),
            *kubelet.decisions,
            *kernel.decisions,
            *bootstrap.decisions,
            *_taint_decisions(pool, requirements.taints),
            *_class_decisions(
                pool, place, class_labels, class_taints, queued=context.environment.queueing is not None
            ),
            *_software_decision(context, pool, software),
        ),
    )


def node_gate(pool: Pool, validation: Validation, *, partitioned: bool) -> NodeGate:
    """Return when the nodes of a pool are tainted.

    A new node with MIG offers whole GPUs until the MIG manager has partitioned them. The nodes of such a pool are
    therefore tainted at startup, unless the stack file sets `gate_nodes`.
    """
    if pool.gate_nodes is not None:
        return pool.gate_nodes
    chosen = "gate_nodes" in validation.model_fields_set
    return "startup" if partitioned and not chosen else validation.gate_nodes


def _is_partitioned(sharing: SharingPlan) -> bool:
    """Return whether the MIG manager partitions the GPUs of a node after the node has joined."""
    return sharing.mode == "mig" and sharing.mig_config is not None


def _partition_decisions(
    context: CompleteContext, pool: Pool, requirements: NodeRequirements
) -> tuple[Decision, ...]:
    """Return the decisions about new nodes of a pool whose GPUs the MIG manager partitions.

    Source: NVIDIA/mig-parted#19 and #357, NVIDIA/gpu-operator#2415 and #2670; read 2026-11-28.
    """
    if not _is_partitioned(requirements.sharing):
        return ()
    stopped = "operands of the GPU Operator"
    if requirements.software.driver != "operator":
        stopped += ", as well as the kubelet and the GPU services of the host"
    reboots = context.cloud.software.operator_settings(()).reboots_for_mig
    reset = "resets the GPUs" + (", and reboots the node if a reset is not possible" if reboots else "")
    decisions = [
        Decision(
            subject=f"pool {pool.name}",
            what="partitioning of new nodes",
            chosen="after they have joined",
            why=f"to turn MIG mode on, the MIG manager stops {stopped}, and {reset}; pods start after that",
        )
    ]
    if not requirements.startup_taints:
        has_gate = takes(Pool, "gate_nodes", "startup", context.cloud.cluster.provider)
        decisions.append(
            Decision(
                subject=f"pool {pool.name}",
                what="warning: whole GPUs on new nodes",
                chosen="offered until they are partitioned",
                why="with gate_nodes: never, a pod with a whole GPU prevents the partitioning of its node"
                + ("; write gate_nodes: startup" if has_gate else ""),
            )
        )
    return tuple(decisions)


def _gate_decisions(context: CompleteContext, pool: Pool, requirements: NodeRequirements) -> tuple[Decision, ...]:
    """Return the decisions about taints that keep team pods off nodes that are not validated or fail checks."""
    subject = f"pool {pool.name}"
    by = "the Node Readiness Controller" if context.environment.validation.node_readiness else "the node agent"
    why = f"no team pod starts on a node that has not passed validation; {by} removes the taint when a node passes"
    if requirements.startup_taints and context.cloud.owner_prepares_nodes:
        [taint] = requirements.startup_taints
        why += f"; nodes of an existing cluster must register with the taint themselves: {taint}"
    starting = tuple(
        Decision(subject=subject, what="taint of new nodes", chosen=_short(taint), why=why)
        for taint in requirements.startup_taints
    )
    percent = context.environment.validation.max_held_percent
    failing = tuple(
        Decision(
            subject=subject,
            what="taint of failing nodes",
            chosen=_short(taint),
            why=f"set while a check fails, on at most {percent} % of the pool's nodes (at least one node)",
        )
        for taint in requirements.failed_taints
    )
    return (*starting, *failing)


def _short(taint: Taint) -> str:
    """Return a taint without the prefix of its key, because the prefix is too long for a table column."""
    return f"{taint.key.rpartition('/')[2]}:{taint.effect}"


def _driver_version(context: CompleteContext, pool: Pool, software: NodeSoftware) -> str | None:
    """Return the exact driver version, or None if it is not known.

    If another owner installs the operator, the result is the declared version.
    """
    if gpu_parts(context.cloud.cluster).gpu_operator == "present":
        return context.operator.driver.version
    releases = context.catalog.operator_releases
    return driver_version(pool, software, context.operator, releases.get(context.operator.release))


def _check_label_values(context: CompleteContext, resolved: ResolvedPool, labels: Labels) -> None:
    """Record a problem for each label whose value is too long for Kubernetes. Values are composed of names in the
    stack file.
    """
    for key, value in labels.items():
        if is_label_value(value):
            continue
        named = resolved.name is not None and key == names.DEVICE_PLUGIN_CONFIG_LABEL
        context.at(f"sharing.{resolved.name}" if named else resolved.path).add(
            f"{value!r}, the value of the node label {key}, with {len(value)} characters",
            "labels of at most 63 characters",
            "shorten the name by " + counted(len(value) - _LONGEST_LABEL, "character"),
        )


def _check_selector(context: CompleteContext, resolved: ResolvedPool, sharing: SharingPlan) -> None:
    """Record a problem for a selector with a label that the pool's sharing changes, because the selector would
    then match no node.
    """
    nodes = resolved.pool.nodes
    for key in (nodes.selector or ()) if nodes is not None else ():
        if changes_label(sharing, key):
            context.at(f"{resolved.path}.nodes.selector").at(key).add(
                f"{key!r}, which has another value once {resolved.sharing_path} is in effect",
                f"labels that sharing does not change, such as {names.INSTANCE_TYPE_LABEL} or your own",
                "select the nodes by another label, or write nodes.names",
            )


def _configures_plugin(context: CompleteContext) -> bool:
    """Return whether the program configures the device plugin. If another owner configures it, that owner's config
    has no key for the pool's label.
    """
    parts = gpu_parts(context.cloud.cluster)
    return parts.gpu_operator == "install" and parts.device_plugin == "install"


def _without_gpus(resolved: ResolvedPool, machine: MachineType, catalog: Catalog) -> Decided[NodeRequirements]:
    """Return the requirements for the nodes of a CPU pool, which have no GPU software and only the declared
    taints.
    """
    pool = resolved.pool
    taints = _declared_taints(pool)
    kernel = plan_kernel(pool, catalog)
    bootstrap = plan_bootstrap(pool)
    requirements = NodeRequirements(
        path=resolved.path,
        pool=pool,
        machine=machine,
        gpu=None,
        software=NO_GPU_SOFTWARE,
        driver_version=None,
        sharing=no_sharing(resolved),
        resources=(),
        devices=(),
        kubelet=None,
        labels={
            names.POOL_LABEL: pool.name,
            names.MACHINE_TYPE_LABEL: pool.machine_type,
            names.WORKLOAD_LABEL: pool.workload,
            **pool.labels,
        },
        taints=taints,
        kernel=kernel.value,
        bootstrap=bootstrap.value,
    )
    subject = f"pool {pool.name}"
    no_gpus = Decision(
        subject=subject,
        what="GPU software",
        chosen="none",
        why=f"{machine.name} has no GPUs: no driver, device plugin, operand or node agent runs there",
    )
    open_to_all = Decision(subject=subject, what="taint", chosen="none", why="pods without GPUs run on a CPU pool")
    by_taints = _taint_decisions(pool, taints) if taints else (open_to_all,)
    return Decided(requirements, (no_gpus, *kernel.decisions, *bootstrap.decisions, *by_taints))


def _labels(
    pool: Pool, sharing: SharingPlan, software: NodeSoftware, kubelet: Kubelet | None, *, configures: bool
) -> Labels:
    labels = {
        names.POOL_LABEL: pool.name,
        names.MACHINE_TYPE_LABEL: pool.machine_type,
        names.WORKLOAD_LABEL: pool.workload,
        names.SHARING_LABEL: sharing.mode,
    }
    if sharing.device_plugin_key is not None and configures:
        labels[names.DEVICE_PLUGIN_CONFIG_LABEL] = sharing.device_plugin_key
    labels |= software.node_labels()
    if sharing.mig_config is not None:
        labels[names.MIG_CONFIG_LABEL] = sharing.mig_config
    if sharing.mig_change is not None:
        labels[names.MIG_CHANGE_LABEL] = sharing.mig_change
    if kubelet is not None:
        labels[names.TOPOLOGY_POLICY_LABEL] = kubelet.topology_policy
    return labels | pool.labels


def _declared_taints(pool: Pool) -> tuple[Taint, ...]:
    return tuple(Taint(key=taint.key, value=taint.value, effect=taint.effect) for taint in pool.taints)


def _taint_decisions(pool: Pool, taints: Sequence[Taint]) -> tuple[Decision, ...]:
    return tuple(
        Decision(
            subject=f"pool {pool.name}",
            what="taint",
            chosen=str(taint),
            why="keeps pods without GPUs off GPU nodes" if taint == GPU_TAINT else "set in the stack file",
        )
        for taint in dict.fromkeys(taints)
    )


def class_place(pool: str, classes: Sequence[ComputeClass]) -> ClassPlace | None:
    """Return the position of a pool in its compute class, or None if it is in no class."""
    for one in classes:
        if pool in one.pools:
            return ClassPlace(name=one.name, rank=one.pools.index(pool), pools=len(one.pools))
    return None


def _class_decisions(
    pool: Pool, place: ClassPlace | None, labels: Labels, taints: tuple[Taint, ...], *, queued: bool
) -> tuple[Decision, ...]:
    if place is None:
        return ()
    named = "; with queues, pods also name pools of the class, and Kueue chooses a pool by quota" if queued else ""
    selector = ", ".join(f"{key}: {value}" for key, value in labels.items())
    tolerated = f", and tolerate {', '.join(map(str, taints))}" if taints else ""
    return (
        Decision(
            subject=f"pool {pool.name}",
            what="compute class",
            chosen=f"{place.name}, {place.rank + 1} of {place.pools}",
            why=f"the stack file sets the order; pods of the class select {selector}{tolerated}{named}",
        ),
    )


def _software_decision(context: CompleteContext, pool: Pool, software: NodeSoftware) -> tuple[Decision, ...]:
    why = context.cloud.software.explain(pool, software)
    if why is None:
        return ()
    return (
        Decision(
            subject=f"pool {pool.name}",
            what="driver, toolkit, device plugin",
            chosen=f"{software.driver}, {software.toolkit}, {software.device_plugin}",
            why=why,
        ),
    )


def has_topology_policy(pool: Pool, gpus: int) -> bool:
    """Return whether a Topology Manager policy is set on nodes that the program creates and that have `gpus`
    GPUs.
    """
    return pool.topology is not None or (pool.workload == "training" and gpus > 1)


def _kubelet(pool: Pool, gpus: int, cloud: Cloud) -> Decided[Kubelet | None]:
    memory: Literal["none", "static"] = "none"
    if pool.topology is not None:
        policy, scope, why = pool.topology.policy, pool.topology.scope, "set in the stack file"
        memory = pool.topology.memory
    elif cloud.sets_kubelet and has_topology_policy(pool, gpus):
        policy, scope = "restricted", "container"
        why = "training on several GPUs needs GPUs, CPUs and NICs on the same NUMA node"
    else:
        # The program sets no policy on existing nodes, so a label that names a policy would be wrong.
        return Decided(None)
    kubelet = Kubelet(
        topology_policy=policy,
        topology_scope=scope,
        # A Topology Manager policy has no effect on CPUs unless the CPU manager policy is static.
        cpu_manager_policy="static" if policy != "none" else "none",
        memory_manager_policy="Static" if memory == "static" else "None",
    )
    chosen = f"{policy} ({scope})"
    decision = Decision(subject=f"pool {pool.name}", what="Topology Manager", chosen=chosen, why=why)
    return Decided(kubelet, (decision,))
