"""Rules about isolation: pods that use GPUs without a request, access to the node, and other pods on GPU nodes.

In the namespaces of teams, the API server enforces rules with the same ids. The section "The same rules at
admission" of the documentation describes where the policy pack and the API server differ.

Sources: NVIDIA container toolkit docs, NVIDIA_VISIBLE_DEVICES and CDI annotations; GKE's NRI device injector
(container-engine-accelerators, nri_device_injector); Kubernetes docs, Pod Security Standards. Read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpu_platform.base import names
from gpu_platform.catalog.pod_devices import DEVICE_ANNOTATIONS, NO_DEVICES, RUNTIME_CLASS_PREFIX, VISIBLE_DEVICES
from gpu_platform.catalog.pod_limits import BARE_POD, LEAVING_TAINTS
from gpu_platform.catalog.pod_networks import JOINED_NETWORKS, chooses_network
from policies._fabric_pods import FabricPod
from policies._node_pool import NodeTaint
from policies._pools import pools
from policies._rule import Breach, Rule, Settings, Severity
from policies._stack import ObjectSubject, Stack
from policies._workloads import Container, Workload, covers, with_additions, workloads

_POWERFUL: Final = frozenset({"ALL", "SYS_ADMIN", "SYS_MODULE", "SYS_RAWIO", "SYS_PTRACE", "NET_ADMIN", "BPF"})
_HOST_NAMESPACES: Final = ("hostNetwork", "hostPID", "hostIPC")


class SystemSettings(Settings):
    """Namespaces of the platform's own pods, which need permissions that other pods must not have."""

    system_namespaces: tuple[str, ...] = (
        "kube-system",
        names.OPERATOR_NAMESPACE,
        names.VALIDATION_NAMESPACE,
        names.SANDBOX_NAMESPACE,
    )


def _visible_devices(_: Stack, workload: Workload, settings: SystemSettings) -> Iterator[Breach]:
    if workload.namespace in settings.system_namespaces:
        return
    for container in workload.containers:
        for variable in container.spec.get("env").items():
            if variable.get("name").text() != VISIBLE_DEVICES:
                continue
            value = variable.get("value")
            if (value.text() or "") in NO_DEVICES and not variable.get("valueFrom").present:
                continue
            yield Breach(
                at=value if value.present else variable,
                found=f"{VISIBLE_DEVICES}={value.text() or '(from elsewhere)'} of a container",
                allowed="void, or no such variable, because the device plugin sets it for allocated GPUs",
                fix=f"remove it, and request {names.GPU_RESOURCE} under resources.limits",
            )


gpu_visible_devices_bypass = Rule(
    id="gpu-visible-devices-bypass",
    severity=Severity.CRITICAL,
    description="Pods obtain GPUs only by requesting them. With NVIDIA_VISIBLE_DEVICES, a pod could use the GPUs "
    "of other pods.",
    subjects=lambda stack: stack.view(with_additions),
    check=_visible_devices,
    settings=SystemSettings,
)


def _device_annotations(stack: Stack, workload: Workload, settings: SystemSettings) -> Iterator[Breach]:
    if workload.namespace in settings.system_namespaces:
        return
    fabric = FabricPod(stack, workload)
    for key, value in workload.annotations.entries():
        if key.startswith(DEVICE_ANNOTATIONS) and not fabric.may_have_devices(key, value):
            yield Breach(
                at=value,
                found=f"annotation {key}",
                allowed="devices that the scheduler allocated, or the published devices of a fabric's daemon",
                fix=f"remove it, and request {names.GPU_RESOURCE} or create a ResourceClaim",
            )


gpu_device_annotation = Rule(
    id="gpu-device-annotation",
    severity=Severity.CRITICAL,
    description="Pods obtain GPUs only by requesting them. With a device annotation, a pod could use any device "
    "of the node.",
    subjects=lambda stack: stack.view(with_additions),
    check=_device_annotations,
    settings=SystemSettings,
)


def _network_annotations(_: Stack, workload: Workload, settings: SystemSettings) -> Iterator[Breach]:
    if workload.namespace in settings.system_namespaces:
        return
    for key, value in workload.annotations.entries():
        if chooses_network(key, value.text() or ""):
            yield Breach(
                at=value,
                found=f"annotation {key}",
                allowed=f"addresses that the network assigns, and {JOINED_NETWORKS} with names of networks in the "
                "pod's namespace, because network policies do not apply to other networks",
                fix="remove it, or create a NetworkAttachmentDefinition in the pod's namespace and write its name",
            )


pod_network_annotation = Rule(
    id="pod-network-annotation",
    severity=Severity.HIGH,
    description="Annotations choose neither addresses of pods nor networks of other namespaces. Network policies "
    "do not apply there.",
    subjects=lambda stack: stack.view(with_additions),
    check=_network_annotations,
    settings=SystemSettings,
)


def _runtime_class(_: Stack, workload: Workload, settings: SystemSettings) -> Iterator[Breach]:
    if workload.namespace in settings.system_namespaces:
        return
    runtime = workload.pod_spec.get("runtimeClassName")
    if (runtime.text() or "").startswith(RUNTIME_CLASS_PREFIX) and not workload.requests_gpus:
        yield Breach(
            at=runtime,
            found=f"runtimeClassName {runtime.text()} on pods that request no GPU",
            allowed="the default runtime class, because images can set NVIDIA_VISIBLE_DEVICES",
            fix="remove it, or request a GPU",
        )


gpu_runtime_class = Rule(
    id="gpu-runtime-class",
    severity=Severity.CRITICAL,
    description="Only pods with GPUs use NVIDIA's runtime class. It gives other pods the GPUs that their image "
    "names.",
    subjects=lambda stack: stack.view(workloads),
    check=_runtime_class,
    settings=SystemSettings,
)


def _names_a_node(_: Stack, workload: Workload, settings: SystemSettings) -> Iterator[Breach]:
    if workload.namespace in settings.system_namespaces:
        return
    node = workload.pod_spec.get("nodeName")
    if node.text():
        yield Breach(
            at=node,
            found=f"nodeName {node.text()}",
            allowed="nodes that the scheduler chooses, because only the scheduler respects taints and free GPUs",
            fix="remove it, and use a nodeSelector",
        )


gpu_node_name = Rule(
    id="gpu-node-name",
    severity=Severity.HIGH,
    description="The scheduler chooses the node of a pod. `nodeName` bypasses taints and ignores which GPUs are "
    "free.",
    subjects=lambda stack: stack.view(workloads),
    check=_names_a_node,
    settings=SystemSettings,
)


class HostPathSettings(SystemSettings):
    """Host folders that pods may mount."""

    allowed_host_paths: tuple[str, ...] = ()
    """Folders that every pod may mount read-only, including their subfolders."""


def _reaches_the_node(stack: Stack, workload: Workload, settings: HostPathSettings) -> Iterator[Breach]:
    if workload.namespace in settings.system_namespaces or not _comes_near_gpus(stack, workload):
        return
    spec = workload.pod_spec
    for name in _HOST_NAMESPACES:
        if spec.get(name).truth():
            yield Breach(
                spec.get(name), f"{name}: true", "false, so that the pod has its own namespaces", "remove it"
            )
    fabric = FabricPod(stack, workload)
    for container in workload.containers:
        yield from _powerful(container, fabric)
    mounted = _read_only_mounts(workload)
    for volume in spec.get("volumes").items():
        path = volume.get("hostPath", "path")
        if not path.present or fabric.may_mount(volume):
            continue
        text = (path.text() or "").rstrip("/") or "/"
        allowed = any(text == one or text.startswith(one.rstrip("/") + "/") for one in settings.allowed_host_paths)
        if ".." in text.split("/") or not allowed or (volume.get("name").text() not in mounted):
            yield Breach(
                at=path,
                found=f"hostPath {text}",
                allowed=", ".join(f"{one} (read-only)" for one in settings.allowed_host_paths) or "no hostPath",
                fix="use a claim, a ConfigMap or an emptyDir; the device plugin mounts the GPU's devices",
            )


def _powerful(container: Container, fabric: FabricPod) -> Iterator[Breach]:
    context = container.spec.get("securityContext")
    if context.get("privileged").truth():
        yield Breach(
            at=context.get("privileged"),
            found="privileged: true",
            allowed="false, because a privileged container has access to the node and all its GPUs",
            fix="remove it; GPUs, EFA and RDMA need no privilege",
        )
    for capability in context.get("capabilities", "add").items():
        name = (capability.text() or "").upper().removeprefix("CAP_")
        if name in _POWERFUL and not fabric.may_add(container, name):
            yield Breach(
                capability, f"capability {name}", "no capability that gives access to the node", "remove it"
            )


def _read_only_mounts(workload: Workload) -> set[str]:
    """Return the volumes that no container can write to."""
    states: dict[str, bool] = {}
    for container in workload.containers:
        for mount in container.spec.get("volumeMounts").items():
            name = mount.get("name").text() or ""
            states[name] = states.get(name, True) and mount.get("readOnly").truth()
    return {name for name, read_only in states.items() if read_only}


def _comes_near_gpus(stack: Stack, workload: Workload) -> bool:
    """Return whether the pods can run on GPU nodes, because they request GPUs or tolerate the nodes' taints."""
    return workload.requests_gpus or any(workload.tolerates(taint) for taint in _gpu_taints(stack))


def _gpu_taints(stack: Stack) -> list[NodeTaint]:
    """Return the taints of the stack's GPU pools, and the conventional taint of GPU nodes."""
    found = {NodeTaint(names.GPU_TAINT_KEY, None, "NoSchedule"): None}
    for pool in stack.view(pools):
        if pool.has_gpus:
            # Ignore the taint's value, because a toleration of the key with another value is not needed either.
            keys = {(taint.key, taint.effect) for taint in pool.taints if taint.keeps_pods_off}
            found |= {NodeTaint(key, None, effect): None for key, effect in sorted(keys)}
    return list(found)


gpu_privileged_hostpath = Rule(
    id="gpu-privileged-hostpath",
    severity=Severity.CRITICAL,
    description="Pods on GPU nodes have no access to the node. A privileged pod would have access to all GPUs "
    "of the node.",
    subjects=lambda stack: stack.view(workloads),
    check=_reaches_the_node,
    settings=HostPathSettings,
    before_only="Pod Security refuses such pods in the namespaces of teams, even pods without GPUs",
)


def _needless_toleration(stack: Stack, workload: Workload, settings: SystemSettings) -> Iterator[Breach]:
    # DaemonSets such as drivers, exporters and log collectors must run on every node.
    if workload.resource.kind == "apps/DaemonSet" or workload.namespace in settings.system_namespaces:
        return
    leaving = [NodeTaint(key, None, "NoSchedule") for key in LEAVING_TAINTS]
    taints = [*leaving, *(() if workload.requests_gpus else _gpu_taints(stack))]
    for toleration in workload.tolerations.items():
        tolerated = next((taint for taint in taints if covers(toleration, taint)), None)
        if tolerated is not None:
            every = not toleration.get("key").text()
            yield Breach(
                at=toleration,
                found="a toleration of every taint" if every else f"a toleration of {tolerated}",
                allowed="no tolerations for the taints of drained nodes, and tolerations for the taints of GPU "
                "nodes "
                "only on pods with GPUs",
                fix="remove it, or name the keys of the taints that the pods must tolerate",
            )


gpu_wildcard_toleration = Rule(
    id="gpu-wildcard-toleration",
    severity=Severity.HIGH,
    description="Pods do not tolerate the taints of drained nodes. Pods without GPUs do not tolerate the taints "
    "of GPU nodes. Otherwise they could occupy GPU nodes.",
    subjects=lambda stack: stack.view(workloads),
    check=_needless_toleration,
    settings=SystemSettings,
)


class BarePodSettings(Settings):
    """Namespaces in which pods need a controller."""

    namespaces: tuple[str, ...] = ()
    """Namespaces of teams on EKS, where network policies are enforced only for pods with a controller."""


@dataclass(frozen=True, slots=True, eq=False)
class BarePod(ObjectSubject):
    """One pod that the stack declares directly, without a controller."""


def bare_pods(stack: Stack) -> tuple[BarePod, ...]:
    """Return every pod of the stack."""
    return tuple(BarePod(resource) for resource in stack.of_kind("core/Pod"))


def _no_controller(_: Stack, pod: BarePod, settings: BarePodSettings) -> Iterator[Breach]:
    namespace = pod.resource.seen_namespace() if settings.namespaces else ""
    if namespace in settings.namespaces:
        yield Breach(
            at=pod.resource.inputs.get("kind"),
            found=f"a pod without a controller in namespace {namespace}",
            allowed="pods of a Job, a Deployment or a StatefulSet, because network policies are enforced only "
            "for them",
            fix=(
                "declare a Job, Deployment or StatefulSet instead, or set allow_bare_pods: true for the team "
                "in the stack file"
            ),
        )


bare_pod = Rule(
    id=BARE_POD,
    severity=Severity.HIGH,
    description="Pods of teams on EKS have a controller. AWS guarantees network policies only for such pods.",
    subjects=lambda stack: stack.view(bare_pods),
    check=_no_controller,
    settings=BarePodSettings,
)

RULES = (
    bare_pod,
    gpu_visible_devices_bypass,
    gpu_device_annotation,
    pod_network_annotation,
    gpu_runtime_class,
    gpu_privileged_hostpath,
    gpu_wildcard_toleration,
    gpu_node_name,
)
