"""Objects that decide whether the API server accepts other objects: policies, quotas, limits, classes and Pod
Security.

One deployment may loosen such an object and also create objects that only the looser version allows. The server
checks new objects against the current version, so a refusal is final only after the looser version
is applied.

Sources of the messages: kubernetes v1.36.3, plugin/pkg/admission/limitranger and priority; apiserver v0.36.3,
pkg/admission/plugin/resourcequota and policy/validating; pod-security-admission v0.36.3; read 2026-11-28.
"""

from __future__ import annotations

from typing import Final

from gpu_platform.live.client import Refused
from gpu_platform.live.objects import ObjectKey

_POLICIES: Final = "admissionregistration.k8s.io"


def is_judge(key: ObjectKey) -> bool:
    """Return whether the API server checks other objects against this object."""
    return key.group == _POLICIES or key.group_kind in (
        "Namespace",
        "ResourceQuota",
        "LimitRange",
        "PriorityClass.scheduling.k8s.io",
    )


def refused_by(refusal: Refused, namespace: str, judge: ObjectKey) -> bool:
    """Return whether the server's message shows that the policy, quota or other object `judge` caused the
    refusal of an object in a namespace.
    """
    said = refusal.message
    if judge.group == _POLICIES:
        return f"'{judge.name}'" in said and "denied request" in said
    if judge.group_kind == "PriorityClass.scheduling.k8s.io":
        return f"no PriorityClass with name {judge.name} was found" in said
    if judge.group_kind == "Namespace":
        return judge.name == namespace and "violates PodSecurity" in said
    if judge.namespace != namespace:
        return False
    if judge.group_kind == "ResourceQuota":
        return any(f"{verb} quota: {judge.name}{end}" in said for verb in ("exceeded", "failed") for end in ",:")
    return " usage per " in said
