"""The Pod Security Standards as rules of a ValidatingAdmissionPolicy, with exceptions.

Each rule is one control, in the order of the standards. None is weaker than Pod Security admission, and for pods
without exceptions the verdicts are the same, but for two kinds of pods that Pod Security lets off some controls
and these rules do not: those of Windows, and those in a user namespace (`hostUsers: false`).

Source: k8s.io/pod-security-admission v0.36.3, policy/check_*.go; read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpu_platform.planning.teams.admission_rule import PodRule
from gpu_platform.planning.teams.cel import texts
from gpu_platform.stack.team import PodSecurity


@dataclass(frozen=True, slots=True, kw_only=True)
class Exceptions:
    """What may break a level, as CEL.

    `relaxed`: that the container `one` has to satisfy `baseline` alone; `capability`: that it may add the
    capability `name`; `host_path`: that the pod may have the host path `path`; `mount`: that `one` may have it by
    `mount`.
    """

    relaxed: str
    capability: str
    host_path: str
    mount: str


_DEFAULT_CAPABILITIES: Final = (
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
)
_VOLUMES: Final = (
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
)
_SYSCTLS: Final = (
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
)
_SELINUX_TYPES: Final = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
_PROFILES: Final = texts(("RuntimeDefault", "Localhost"))
_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"

_POD: Final = "object.spec.?securityContext"
_OWN: Final = "one.?securityContext"
_ADDED: Final = f"{_OWN}.?capabilities.?add.orValue([])"


def pod_security_rules(level: PodSecurity, exceptions: Exceptions, excepted: str) -> tuple[PodRule, ...]:
    """Return the rules of a level; `excepted`: which pods may break it, for messages.

    The expressions use `variables.containers`, all containers of every kind, and `variables.volumes`.
    """
    rules = [*_baseline(exceptions, excepted)]
    if level == "restricted":
        rules += _restricted(exceptions)
    else:
        rules.append(
            _rule(
                "capabilities",
                _all(
                    f"{_ADDED}.all(name, name in {texts(_DEFAULT_CAPABILITIES)} || ({exceptions.capability}))",
                ),
                f"capabilities beyond the runtime's are for {excepted}: remove them from capabilities.add",
            )
        )
    return tuple(rules)


def _rule(control: str, expression: str, message: str) -> PodRule:
    return PodRule(id=f"pod-security-{control}", expression=expression, message=message)


def _all(expression: str) -> str:
    return f"variables.containers.all(one, {expression})"


def _both(expression: str) -> str:
    """Return that an expression of CONTEXT holds for the security context of the pod and of each container."""
    return f"{expression.replace('CONTEXT', _POD)} && {_all(expression.replace('CONTEXT', _OWN))}"


def _baseline(exceptions: Exceptions, excepted: str) -> Sequence[PodRule]:
    host_paths = "variables.volumes.all(volume, !has(volume.hostPath) || [volume.hostPath.path].all(path, "
    probes = ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle.?postStart", "lifecycle.?preStop")
    return (
        _rule(
            "host-process",
            _both("!CONTEXT.?windowsOptions.?hostProcess.orValue(false)"),
            "hostProcess may not be true: remove it",
        ),
        _rule(
            "host-namespaces",
            " && ".join(f"!object.spec.?{name}.orValue(false)" for name in ("hostNetwork", "hostPID", "hostIPC")),
            "hostNetwork, hostPID and hostIPC may not be true: remove them",
        ),
        _rule(
            "privileged",
            _all(f"!{_OWN}.?privileged.orValue(false)"),
            "a container may not be privileged: remove privileged; GPUs and GPU NICs do not need it",
        ),
        _rule(
            "host-path",
            f"{host_paths}{exceptions.host_path}))",
            f"host paths are for {excepted}, and only those of its fabric, spelt as published: use a claim, a "
            "ConfigMap or an emptyDir",
        ),
        _rule(
            "host-path-mount",
            _all(
                "one.?volumeMounts.orValue([]).all(mount, variables.volumes.all(volume, "
                "volume.name != mount.name || !has(volume.hostPath) || [volume.hostPath.path].all(path, "
                "!has(mount.subPath) && !has(mount.subPathExpr) && "
                f"mount.?mountPropagation.orValue('None') == 'None' && ({exceptions.mount}))))"
            ),
            "a container may not mount this host path, or not in this way: libraries of the fabric need readOnly: "
            "true, paths of its daemon are for the daemon alone, and there are no sub paths",
        ),
        _rule(
            "host-ports",
            _all("one.?ports.orValue([]).all(port, port.?hostPort.orValue(0) == 0)"),
            "hostPort may not be set: use a Service",
        ),
        _rule(
            "host-probes",
            _all(
                " && ".join(
                    f"one.?{probe}.?{kind}.?host.orValue('') == ''"
                    for probe in probes
                    for kind in ("httpGet", "tcpSocket")
                )
            ),
            "probes and lifecycle handlers may not name a host: remove host",
        ),
        _rule(
            "apparmor",
            _both(f"CONTEXT.?appArmorProfile.?type.orValue('RuntimeDefault') in {_PROFILES}")
            + f" && object.metadata.?annotations.orValue({{}}).all(key, !key.startsWith('{_APPARMOR}') || "
            "object.metadata.annotations[key] in ['', 'runtime/default'] || "
            "object.metadata.annotations[key].startsWith('localhost/'))",
            "the AppArmor profile may be RuntimeDefault or Localhost: change or remove it",
        ),
        _rule(
            "selinux",
            _both(
                f"(CONTEXT.?seLinuxOptions.?type.orValue('') in {texts(_SELINUX_TYPES)} && "
                "CONTEXT.?seLinuxOptions.?user.orValue('') == '' && "
                "CONTEXT.?seLinuxOptions.?role.orValue('') == '')"
            ),
            "seLinuxOptions may name a type of containers alone: change or remove them",
        ),
        _rule(
            "proc-mount",
            _all(f"{_OWN}.?procMount.orValue('Default') == 'Default'"),
            "procMount may be Default alone: remove it",
        ),
        _rule(
            "seccomp",
            _both(f"CONTEXT.?seccompProfile.?type.orValue('RuntimeDefault') in {_PROFILES}"),
            "the seccomp profile may be RuntimeDefault or Localhost: change it",
        ),
        _rule(
            "sysctls",
            f"{_POD}.?sysctls.orValue([]).all(one, one.name in {texts(_SYSCTLS)})",
            f"sysctls may be {', '.join(_SYSCTLS)}: remove others",
        ),
    )


def _restricted(exceptions: Exceptions) -> Sequence[PodRule]:
    kinds = " || ".join(f"has(volume.{kind})" for kind in (*_VOLUMES, "hostPath"))
    default = f"{_POD}.?runAsNonRoot.orValue(false)"
    return (
        _rule(
            "volumes",
            # Host paths have rules of their own.
            f"variables.volumes.all(volume, {kinds})",
            f"volumes may be {', '.join(_VOLUMES)}: use a claim instead",
        ),
        _rule(
            "privilege-escalation",
            _all(f"{exceptions.relaxed} || {_OWN}.?allowPrivilegeEscalation.orValue(true) == false"),
            "allowPrivilegeEscalation has to be false: write it in the securityContext of each container",
        ),
        _rule(
            "non-root",
            f"{_POD}.?runAsNonRoot.orValue(true) && "
            + _all(f"{exceptions.relaxed} || {_OWN}.?runAsNonRoot.orValue({default})"),
            "runAsNonRoot has to be true: write it in the securityContext of the pod, and a runAsUser but 0",
        ),
        _rule(
            "user",
            f"{_POD}.?runAsUser.orValue(1) != 0 && "
            + _all(f"{exceptions.relaxed} || {_OWN}.?runAsUser.orValue(1) != 0"),
            "runAsUser may not be 0: write another user id",
        ),
        _rule(
            "seccomp-profile",
            _all(
                f"{exceptions.relaxed} || {_OWN}.?seccompProfile.hasValue() || {_POD}.?seccompProfile.hasValue()"
            ),
            "a seccomp profile has to be set: write seccompProfile: {type: RuntimeDefault} in the securityContext "
            "of the pod",
        ),
        _rule(
            "capabilities",
            _all(
                f"{exceptions.relaxed} ? {_ADDED}.all(name, name in {texts(_DEFAULT_CAPABILITIES)} || "
                f"({exceptions.capability})) : ('ALL' in {_OWN}.?capabilities.?drop.orValue([]) && "
                f"{_ADDED}.all(name, name == 'NET_BIND_SERVICE'))"
            ),
            "a container has to drop ALL capabilities, and may add NET_BIND_SERVICE: write capabilities: {drop: "
            "[ALL]} in its securityContext",
        ),
    )
