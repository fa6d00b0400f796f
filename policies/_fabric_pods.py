"""Pods that use GPU NICs (a fabric), and the host access that the vendor's test pods need.

The admission policies use the same facts from the catalogue. This module evaluates the facts with separate code.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Final

from gpu_platform.base import names
from gpu_platform.catalog import FabricDaemon, FabricPods
from gpu_platform.catalog.pod_devices import published_devices
from policies._inputs import Value
from policies._pools import pools
from policies._stack import Stack
from policies._workloads import Container, Workload

_LIBRARIES: Final = ("LD_LIBRARY_PATH", "/usr/local/nvidia/lib64")
_OF_CONTROLLERS: Final = re.compile(r"JOB_COMPLETION_INDEX|LWS_.*")
_RUN_ELSE: Final = ("envFrom", "volumeDevices", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe")


class FabricPod:
    """A workload that requests whole nodes with a fabric, and the host access that its containers may have.

    If a stack has no pools, such as a team's stack, every fabric is considered. The admission policies consider
    only the fabrics of the actual pools.
    """

    def __init__(self, stack: Stack, workload: Workload) -> None:
        self._stack, self._workload = stack, workload

    @cached_property
    def _facts(self) -> tuple[FabricPods, ...]:
        """Return the fabrics of the workload's nodes, or nothing if its containers share a process namespace."""
        if self._workload.pod_spec.get("shareProcessNamespace").truth():
            return ()
        return _facts(self._stack, self._workload)

    def may_add(self, container: Container, capability: str) -> bool:
        """Return whether a container is the vendor's unmodified daemon and that daemon needs the capability."""
        return any(
            fact.daemon is not None
            and capability in fact.daemon.capabilities
            and self._is_daemon(container, fact.daemon, fact)
            for fact in self._facts
        )

    def may_have_devices(self, annotation: str, value: Value) -> bool:
        """Return whether an annotation requests only the devices in the vendor's manifest of the daemon."""
        return any(
            fact.daemon is not None
            and annotation == fact.daemon.annotation
            and re.fullmatch(published_devices(fact.daemon.devices), value.text() or "") is not None
            for fact in self._facts
        )

    def may_mount(self, volume: Value) -> bool:
        """Return whether the fabric needs every mount of a hostPath volume."""
        path, name = volume.get("hostPath", "path").text() or "", volume.get("name").text()
        mounts = [
            (container, mount)
            for container in self._workload.containers
            for mount in container.spec.get("volumeMounts").items()
            if mount.get("name").text() == name
        ]
        return any(
            path in _paths(fact)
            and all(self._may_have(container, mount, path, fact) for container, mount in mounts)
            for fact in self._facts
        )

    def _may_have(self, container: Container, mount: Value, path: str, fact: FabricPods) -> bool:
        if fact.daemon is not None and self._is_daemon(container, fact.daemon, fact):
            return True
        if mount.get("subPath").present or mount.get("subPathExpr").present:
            return False
        return path in fact.writable or (path in fact.read_only and mount.get("readOnly").truth())

    def _is_daemon(self, container: Container, daemon: FabricDaemon, fact: FabricPods) -> bool:
        spec = container.spec
        arguments = [one.text() or "" for one in spec.get("args").items()]
        runs = (
            not arguments
            if daemon.script is None
            else len(arguments) == 1 and re.fullmatch(daemon.script, arguments[0]) is not None
        )
        added = {one.text() for one in spec.get("securityContext", "capabilities", "add").items()}
        return (
            runs
            and spec.get("name").text() == daemon.name
            and (spec.get("image").text() or "").startswith((f"{daemon.image}:", f"{daemon.image}@"))
            and tuple(one.text() for one in spec.get("command").items()) == daemon.command
            and not any(spec.get(key).present for key in _RUN_ELSE)
            and all(_is_harmless(one) for one in spec.get("env").items())
            and added <= set(daemon.capabilities)
            and all(self._is_published(one, daemon, fact) for one in spec.get("volumeMounts").items())
        )

    def _is_published(self, mount: Value, daemon: FabricDaemon, fact: FabricPods) -> bool:
        wanted = daemon.mounts.get(mount.get("mountPath").text() or "")
        if wanted is None or mount.get("subPath").present or mount.get("subPathExpr").present:
            return False
        volumes = self._workload.pod_spec.get("volumes").items()
        name = mount.get("name").text()
        volume = next((one for one in volumes if one.get("name").text() == name), None)
        if volume is None:
            return False
        in_pod = volume.get("emptyDir").present and wanted in fact.writable
        return in_pod or volume.get("hostPath", "path").text() == wanted


def _is_harmless(variable: Value) -> bool:
    name = variable.get("name").text() or ""
    return _OF_CONTROLLERS.fullmatch(name) is not None or (name, variable.get("value").text()) == _LIBRARIES


def _paths(fact: FabricPods) -> set[str]:
    return {*fact.read_only, *fact.writable, *(fact.daemon.mounts.values() if fact.daemon is not None else ())}


def _facts(stack: Stack, workload: Workload) -> tuple[FabricPods, ...]:
    """Return the fabrics of the machine types on which a container of the pod requests all GPUs."""
    requested = {
        int(amount)
        for item in workload.pod_spec.get("containers").items()
        if (found := Container(item).requested.get(names.GPU_RESOURCE)) is not None
        and (amount := found.quantity()) is not None
    }
    catalog = stack.catalog
    if stack.view(pools):
        machines = [machine for pool in workload.targets(stack) for machine in pool.machines]
    else:
        machines = list(catalog.machine_types.values())
    fabrics = {
        catalog.gcp_family(machine).fabric: None
        for machine in machines
        if machine.vendor == "gcp" and machine.gpu_count in requested
    }
    return tuple(catalog.fabric_pods[name] for name in fabrics if name != "none")
