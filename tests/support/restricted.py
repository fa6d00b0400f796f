"""A small checker for the Pod Security level `restricted`, and security contexts that satisfy it.

Source: Kubernetes docs, Pod Security Standards; read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

POD: Final[Mapping[str, Any]] = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER: Final[Mapping[str, Any]] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
}
_VOLUMES: Final = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
_PROFILES: Final = {"RuntimeDefault", "Localhost"}


def satisfying(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod spec with the settings that `restricted` requires, unless the spec sets them itself."""
    found = {**spec, "securityContext": {**POD, **spec.get("securityContext", {})}}
    for kind in ("containers", "initContainers"):
        if kind in spec:
            found[kind] = [
                {**one, "securityContext": {**CONTAINER, **one.get("securityContext", {})}} for one in spec[kind]
            ]
    return found


def violations(spec: Mapping[str, Any]) -> list[str]:
    """Return the violations of `restricted` in a pod spec."""
    return list(_violations(spec))


def _violations(spec: Mapping[str, Any]) -> Iterator[str]:
    pod = spec.get("securityContext") or {}
    yield from (f"{key}: true" for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key))
    for volume in spec.get("volumes") or ():
        yield from (f"volume type {kind}" for kind in volume.keys() - {"name"} - _VOLUMES)
    if pod.get("sysctls"):
        yield "sysctls"
    if pod.get("runAsUser") == 0:
        yield "runAsUser: 0"
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        yield from (f"{container['name']}: {text}" for text in _of_container(container, pod))


def _of_container(container: Mapping[str, Any], pod: Mapping[str, Any]) -> Iterator[str]:
    own = container.get("securityContext") or {}
    if own.get("privileged"):
        yield "privileged"
    if own.get("allowPrivilegeEscalation") is not False:
        yield "allowPrivilegeEscalation is not false"
    if own.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True:
        yield "runAsNonRoot is not true"
    if own.get("runAsUser") == 0:
        yield "runAsUser: 0"
    if own.get("seccompProfile", pod.get("seccompProfile") or {}).get("type") not in _PROFILES:
        yield "no seccomp profile"
    capabilities = own.get("capabilities") or {}
    if "ALL" not in (capabilities.get("drop") or ()):
        yield "capabilities are not dropped"
    yield from (f"capability {one}" for one in capabilities.get("add") or () if one != "NET_BIND_SERVICE")
    yield from (f"hostPort {one['hostPort']}" for one in container.get("ports") or () if one.get("hostPort"))
