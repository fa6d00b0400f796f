"""Rules about jobs: shared memory, deadlines, lost work, and disruption budgets that block a drain.

Sources: PyTorch docs, DataLoader and multiprocessing (shared memory); Kubernetes docs, Job, PodDisruptionBudget,
pod priority and preemption. Read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from gpu_platform.base import names
from policies._gpu_operator import device_plugin_config_of
from policies._inputs import NotVisible, Value
from policies._rule import Breach, Remedy, Rule, Settings, Severity
from policies._stack import ObjectSubject, Resource, Stack
from policies._workloads import Workload, workloads

_SHM: Final = "/dev/shm"  # noqa: S108 - a mount of the container
_GPU_FIELDS_OF_JOBS: Final = {
    "batch/Job": ("spec", "activeDeadlineSeconds"),
    "batch/CronJob": ("spec", "jobTemplate", "spec", "activeDeadlineSeconds"),
}
_CHECKPOINTS: Final = names.CHECKPOINTS_ANNOTATION


def _no_shared_memory(stack: Stack, workload: Workload, _: Settings) -> Iterator[Breach]:
    if sum(workload.requested.values()) < 2 and workload.pods_together < 2:  # one process needs no shared memory
        return
    if not workload.trains(stack) or workload.namespace == names.HEADROOM_NAMESPACE:  # headroom pods are idle
        return
    # KubeRay mounts a /dev/shm that is as large as the pod's memory.
    if workload.resource.kind.startswith("ray.io/"):
        return
    if _mps_mounts_its_own(stack, workload):
        return
    in_memory = {
        volume.get("name").text(): volume.get("emptyDir", "sizeLimit")
        for volume in workload.pod_spec.get("volumes").items()
        if volume.get("emptyDir", "medium").text() == "Memory"
    }
    for container in workload.containers:
        if not container.requested and not workload.pod_spec.get("resourceClaims").present:
            continue
        mounts = container.spec.get("volumeMounts")
        mounted = [
            m.get("name").text() for m in mounts.items() if (m.get("mountPath").text() or "").rstrip("/") == _SHM
        ]
        sized = [in_memory[name].present for name in mounted if name in in_memory]
        if any(sized):
            continue
        yield Breach(
            at=mounts,
            found=f"{_SHM} in memory without a sizeLimit" if sized else f"no in-memory volume at {_SHM}",
            allowed=f"an emptyDir with medium: Memory and a sizeLimit, mounted at {_SHM}",
            fix=f"add one; otherwise {_SHM} has only 64 MiB. Files in the volume count towards the container's "
            "memory",
        )


def _mps_mounts_its_own(stack: Stack, workload: Workload) -> bool:
    """Return whether the device plugin mounts the /dev/shm of its MPS daemon. A volume would hide this mount."""
    try:
        configs = [device_plugin_config_of(stack, pool) for pool in workload.targets(stack)]
    except NotVisible:  # the config is in another stack
        return False
    return bool(configs) and all(
        config is not None and any(one.mode == "MPS" for one in config.sharing) for config in configs
    )


shm_for_training = Rule(
    id="shm-for-training",
    severity=Severity.MEDIUM,
    description="Training pods have shared memory of a declared size. NCCL and data loaders fail with the "
    "default of 64 MiB.",
    subjects=lambda stack: stack.view(workloads),
    check=_no_shared_memory,
    settings=Settings,
    before_only="advice: a program without data loaders or NCCL needs no shared memory",
)


def _no_deadline(_: Stack, workload: Workload, __: Settings) -> Iterator[Breach]:
    path = _GPU_FIELDS_OF_JOBS.get(workload.resource.kind)
    if path is None or not workload.requests_gpus:
        return
    deadline = workload.resource.inputs.get(*path)
    if not deadline.present and not workload.pod_spec.get("activeDeadlineSeconds").present:
        yield Breach(
            at=deadline,
            found="no activeDeadlineSeconds on a job with GPUs",
            allowed="the maximum duration of the job, in seconds",
            fix="add activeDeadlineSeconds, including time for restarts and for the queue",
        )


active_deadline = Rule(
    id="active-deadline",
    severity=Severity.MEDIUM,
    description="Jobs with GPUs have a deadline. A job that hangs would otherwise hold its GPUs, and cost money, "
    "indefinitely.",
    subjects=lambda stack: stack.view(workloads),
    check=_no_deadline,
    settings=Settings,
    before_only="cost advice only: no time limit suits every Job, and `cleanup` reports idle Jobs",
)


def _keeps_work(workload: Workload) -> bool:
    """Return whether the work of a pod is kept after the pod ends, on a volume or in checkpoints that an
    annotation declares.
    """
    if workload.annotations.get(_CHECKPOINTS).text():
        return True
    volumes = workload.pod_spec.get("volumes").items()
    return any(
        volume.get(kind).present and not volume.get(kind, "readOnly").truth()
        for volume in volumes
        for kind in ("persistentVolumeClaim", "ephemeral", "nfs", "csi")
    )


def _lost_on_spot(stack: Stack, workload: Workload, _: Settings) -> Iterator[Breach]:
    if not workload.ends or not workload.requests_gpus or _keeps_work(workload):
        return
    spot = [pool.name for pool in workload.targets(stack) if pool.spot]
    if spot:
        yield Breach(
            at=workload.pod_spec.get("volumes"),
            found=f"a job without checkpoints that can run on spot nodes ({', '.join(dict.fromkeys(spot))})",
            allowed=f"a volume that outlives the pod, or the annotation {_CHECKPOINTS} on its pods",
            fix="save checkpoints to a claim or a bucket, or select nodes that are not spot",
        )


spot_for_stateful = Rule(
    id="spot-for-stateful",
    severity=Severity.MEDIUM,
    description="Jobs on spot nodes save checkpoints. Otherwise hours of work are lost when a node is reclaimed.",
    subjects=lambda stack: stack.view(workloads),
    check=_lost_on_spot,
    settings=Settings,
    before_only="advice: the pod does not show what its program saves, and an annotation only declares it",
)


def _lost_by_preemption(stack: Stack, workload: Workload, _: Settings) -> Iterator[Breach]:
    if not workload.ends or not workload.requests_gpus or _keeps_work(workload):
        return
    name = workload.pod_spec.get("priorityClassName").text()
    classes = {one.object_name: one.inputs for one in stack.of_kind("scheduling.k8s.io/PriorityClass")}
    if name is not None and name not in classes:
        raise workload.pod_spec.get("priorityClassName").not_visible("the priority class is not in this stack")
    own = (classes[name].get("value").whole() or 0) if name is not None else 0
    above = sorted(
        other
        for other, inputs in classes.items()
        if (inputs.get("value").whole() or 0) > own and inputs.get("preemptionPolicy").text() != "Never"
    )
    if above:
        yield Breach(
            at=workload.pod_spec.get("priorityClassName"),
            found=f"a job that has no checkpoints and that pods of {', '.join(above)} may preempt",
            allowed=f"a volume that outlives the pod, or the annotation {_CHECKPOINTS} on its pods",
            fix="save checkpoints to a claim or a bucket, or set preemptionPolicy: Never for the higher classes",
        )


priority_preempt_training = Rule(
    id="priority-preempt-training",
    severity=Severity.MEDIUM,
    description="Jobs that other pods may preempt save checkpoints. Otherwise preemption loses hours of work.",
    subjects=lambda stack: stack.view(workloads),
    check=_lost_by_preemption,
    settings=Settings,
    before_only="advice: the pod does not show what its program saves, and an annotation only declares it",
)


@dataclass(frozen=True, slots=True, eq=False)
class DisruptionBudget(ObjectSubject):
    """One PodDisruptionBudget."""


def budgets(stack: Stack) -> tuple[DisruptionBudget, ...]:
    """Return every PodDisruptionBudget."""
    return tuple(DisruptionBudget(resource) for resource in stack.of_kind("policy/PodDisruptionBudget"))


def _blocks_drain(stack: Stack, budget: DisruptionBudget, _: Settings) -> Iterator[Breach]:
    spec = budget.resource.inputs.get("spec")
    most, least = spec.get("maxUnavailable"), spec.get("minAvailable")
    if (most.whole() == 0) or most.text() == "0%":
        at, found = most, "maxUnavailable 0"
    elif least.text() == "100%":
        at, found = least, "minAvailable 100%"
    else:
        wanted = least.whole()
        guarded = [
            count for one in _selected(stack, budget) if (count := one.inputs.get("spec", "replicas").whole())
        ]
        if wanted is None or not guarded or wanted < sum(guarded):
            return
        at, found = least, f"minAvailable {wanted} of {sum(guarded)} replicas"
    yield Breach(
        at=at,
        found=found,
        allowed="a budget that allows at least one eviction",
        fix="set maxUnavailable: 1; otherwise node drains and upgrades wait forever",
    )


def _selected(stack: Stack, budget: DisruptionBudget) -> Iterator[Resource]:
    labels = budget.resource.inputs.get("spec", "selector", "matchLabels").entries()
    wanted = {key: value.text() for key, value in labels}
    for one in stack.of_kind("apps/Deployment", "apps/StatefulSet"):
        if one.namespace != budget.resource.namespace or not wanted:
            continue
        have: Value = one.inputs.get("spec", "template", "metadata", "labels")
        with suppress(NotVisible):
            if all(have.get(key).text() == value for key, value in wanted.items()):
                yield one


pdb_blocks_drain = Rule(
    id="pdb-blocks-drain",
    severity=Severity.MEDIUM,
    description="A disruption budget allows at least one eviction. Otherwise drains and upgrades of its "
    "nodes hang.",
    subjects=lambda stack: stack.view(budgets),
    check=_blocks_drain,
    settings=Settings,
    before_only="advice: such a budget may be intentional for a time, and a drain that it blocks reports its name",
)

_RESERVED: Final = "system-"


@dataclass(frozen=True, slots=True, eq=False)
class PriorityClass(ObjectSubject):
    """One PriorityClass."""


def _priority_subjects(stack: Stack) -> tuple[PriorityClass | Workload, ...]:
    classes = (PriorityClass(resource) for resource in stack.of_kind("scheduling.k8s.io/PriorityClass"))
    return (*classes, *stack.view(workloads))


class SystemPriorities(Settings):
    """Namespaces of the platform's own pods."""

    system_namespaces: tuple[str, ...] = ("kube-system", names.OPERATOR_NAMESPACE, names.VALIDATION_NAMESPACE)


def _inflated(_: Stack, subject: PriorityClass | Workload, settings: SystemPriorities) -> Iterator[Breach]:
    if isinstance(subject, PriorityClass):
        inputs = subject.resource.inputs
        if inputs.get("globalDefault").truth() and (inputs.get("value").whole() or 0) > 0:
            yield Breach(
                at=inputs.get("globalDefault"),
                found=f"priority class {subject.name!r} ({inputs.get('value').whole()}) as the default for pods",
                allowed="no default, or a default with value 0 or less",
                fix="remove globalDefault; otherwise every pod without a class preempts others",
                remedy=Remedy(inputs.get("globalDefault"), value=False),
            )
        return
    name = subject.pod_spec.get("priorityClassName")
    if (name.text() or "").startswith(_RESERVED) and subject.namespace not in settings.system_namespaces:
        yield Breach(
            at=name,
            found=f"priority class {name.text()}",
            allowed="a class of the platform, because system classes preempt everything",
            fix="use a class of the stack",
        )


priority_globaldefault = Rule(
    id="priority-globaldefault",
    severity=Severity.HIGH,
    description="High priority is requested explicitly. No priority class above 0 is the default, and no team "
    "uses system-* classes.",
    subjects=lambda stack: stack.view(_priority_subjects),
    check=_inflated,
    settings=SystemPriorities,
    remedy="`globalDefault: false` in the PriorityClass",
)

RULES = (
    shm_for_training,
    active_deadline,
    spot_for_stateful,
    priority_preempt_training,
    priority_globaldefault,
    pdb_blocks_drain,
)
