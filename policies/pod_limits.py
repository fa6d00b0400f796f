"""Rules about volumes of teams' pods, and how long pods may prevent the removal of a node.

In the namespaces of teams, the API server enforces rules with the same ids. Sources:
gpu_platform/catalog/pod_limits.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from gpu_platform.catalog.pod_limits import (
    INLINE_CSI_DRIVERS,
    LONGEST_GRACE_SECONDS,
    LONGEST_PIN_SECONDS,
    REFUSED_VOLUMES,
    keeps_node,
)
from gpu_platform.catalog.template_kinds import TEMPLATE_KINDS, EndingField, TemplateKind
from policies._inputs import Value
from policies._rule import Breach, Rule, Severity
from policies._stack import Stack
from policies._workloads import Workload, with_additions, workloads
from policies.isolation import SystemSettings

_KINDS: Final[Mapping[str, TemplateKind]] = {
    f"{kind.group}/{prefix}{kind.kind}": kind for kind in TEMPLATE_KINDS for prefix in ("", "Cluster")
}


class VolumeSettings(SystemSettings):
    """CSI drivers of inline volumes."""

    drivers: tuple[str, ...] = INLINE_CSI_DRIVERS
    """CSI drivers whose volumes pods may declare inline."""


def _names_a_server(_: Stack, workload: Workload, settings: VolumeSettings) -> Iterator[Breach]:
    if workload.namespace in settings.system_namespaces:
        return
    for volume in workload.pod_spec.get("volumes").items():
        for kind in REFUSED_VOLUMES:
            if volume.get(kind).present:
                yield Breach(
                    at=volume.get(kind),
                    found=f"a volume of {kind}",
                    allowed="PersistentVolumeClaims; otherwise the node mounts the server or disk and bypasses "
                    "network policies",
                    fix="use a PersistentVolumeClaim",
                )
        driver = volume.get("csi", "driver")
        if driver.present and driver.text() not in settings.drivers:
            yield Breach(
                at=driver,
                found=f"an inline volume of the CSI driver {driver.text()}",
                allowed=f"{', '.join(settings.drivers)}, because other drivers mount servers that the pod chooses",
                fix="use a PersistentVolumeClaim, or add the driver to teams[].inline_csi_drivers",
            )


volume_source = Rule(
    id="volume-source",
    severity=Severity.HIGH,
    description="Pods mount network storage through claims. A volume that names a server or a disk bypasses "
    "network policies.",
    subjects=lambda stack: stack.view(with_additions),
    check=_names_a_server,
    settings=VolumeSettings,
)


class NodeSettings(SystemSettings):
    """Limits on how long pods may prevent the removal of their node."""

    longest_deadline_seconds: int = LONGEST_PIN_SECONDS
    """Maximum deadline of pods with an annotation that prevents the removal of their node."""
    longest_grace_seconds: int = LONGEST_GRACE_SECONDS
    """Maximum time between SIGTERM and SIGKILL."""


def _keeps_its_node(_: Stack, workload: Workload, settings: NodeSettings) -> Iterator[Breach]:
    if workload.namespace in settings.system_namespaces:
        return
    grace = workload.pod_spec.get("terminationGracePeriodSeconds")
    if (grace.whole() or 0) > settings.longest_grace_seconds:
        yield Breach(
            at=grace,
            found=f"terminationGracePeriodSeconds {grace.whole()}",
            allowed=f"at most {settings.longest_grace_seconds}, because the removal of a node waits for it",
            fix=f"write {settings.longest_grace_seconds} or less",
        )
    most = settings.longest_deadline_seconds
    for key, value in workload.annotations.entries():
        if keeps_node(key, value.text() or "") and not any(0 < one <= most for one in _deadlines(workload)):
            yield Breach(
                at=value,
                found=f"{key} on pods without a deadline",
                allowed=f"pods with activeDeadlineSeconds, at most {most}, "
                "because other pods keep their node too long",
                fix="add a deadline, or remove the annotation. The pods of a RayJob also need "
                "shutdownAfterJobFinishes, and its ttlSecondsAfterFinished counts as well; the pods of a "
                "PyTorchJob or MPIJob also need spec.runPolicy.cleanPodPolicy: Running",
            )


def _deadlines(workload: Workload) -> Iterator[int]:
    """Yield the deadlines of the pods, and of the object or job that creates them."""
    yield workload.pod_spec.get("activeDeadlineSeconds").whole() or 0
    inputs = workload.resource.inputs
    kind = _KINDS.get(workload.resource.kind)
    if kind is None or kind.deadline is None:
        return
    job = _at(inputs, kind.deadline.spec.split("."), workload.pod_spec.keys)
    if (seconds := job.get("activeDeadlineSeconds").whole() or 0) == 0:
        return
    if kind.ending is None:
        yield seconds
    elif all(_ends(inputs, field) for field in kind.ending.fields):
        after = kind.ending.after
        yield seconds + (0 if after is None else inputs.get(*after.split(".")).whole() or 0)


def _ends(inputs: Value, field: EndingField) -> bool:
    value = inputs.get(*field.path.split("."))
    return (value.see() if value.present else field.default) in field.values


def _at(value: Value, path: list[str], keys: tuple[str | int, ...]) -> Value:
    """Return the value at a path. `keys` is the path of a pod spec, which selects the items of lists."""
    for depth, key in enumerate(path):
        value = value.items()[int(keys[depth])] if key == "*" else value.get(key)
    return value


node_keeping = Rule(
    id="node-keeping",
    severity=Severity.HIGH,
    description="Pods keep their node only until a deadline. An annotation or a long grace period could keep it "
    "forever.",
    subjects=lambda stack: stack.view(workloads),
    check=_keeps_its_node,
    settings=NodeSettings,
)

RULES = (node_keeping, volume_source)
