"""Resources that several components create in the same way, such as namespaces, Roles and ConfigMaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pulumi

from components._kubernetes_object import KubernetesObject, Manifest
from gpu_platform.planning.config_maps import content_hash
from gpu_platform.planning.system_priorities import PriorityQuotaPlan

_NOBODY: Final = 65534


def own_namespace(
    name: str, pod_security: str, opts: pulumi.ResourceOptions, labels: Mapping[str, str] | None = None
) -> KubernetesObject:
    """Create a component's namespace, with a Pod Security level for its pods."""
    return KubernetesObject(
        name,
        "v1/Namespace",
        metadata={"name": name, "labels": {"pod-security.kubernetes.io/enforce": pod_security, **(labels or {})}},
        opts=opts,
    )


def admit_priority_classes(
    namespace: str, quota: PriorityQuotaPlan, opts: pulumi.ResourceOptions
) -> pulumi.Resource:
    """Create a ResourceQuota that allows pods with reserved priority classes in a namespace."""
    return KubernetesObject(
        quota.name,
        "v1/ResourceQuota",
        metadata={"name": quota.name, "namespace": namespace},
        spec={
            "hard": {"pods": str(quota.pods)},
            "scopeSelector": {
                "matchExpressions": [
                    {"scopeName": "PriorityClass", "operator": "In", "values": list(quota.priority_classes)}
                ]
            },
        },
        opts=opts,
    )


def restricted_pod() -> Manifest:
    """Return a pod security context that the Pod Security level `restricted` allows."""
    return {
        "runAsNonRoot": True,
        "runAsUser": _NOBODY,
        "runAsGroup": _NOBODY,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def restricted_container() -> Manifest:
    """Return a container security context for the level `restricted`, with a read-only root file system."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def role_ref(kind: str, name: str) -> Manifest:
    """Return the `roleRef` of a binding to a Role or a ClusterRole."""
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}


def grant(
    logical: str,
    account: Manifest,
    namespace: str,
    rules: Sequence[Manifest],
    opts: pulumi.ResourceOptions,
) -> list[pulumi.Resource]:
    """Create a Role and its RoleBinding in a namespace. The Role is named after the service account that receives
    it.

    `logical` is the Pulumi name of both resources.
    """
    metadata = {"name": account["name"], "namespace": namespace}
    name = str(account["name"])
    role = KubernetesObject(
        logical, "rbac.authorization.k8s.io/v1/Role", metadata=metadata, rules=list(rules), opts=opts
    )
    binding = KubernetesObject(
        logical,
        "rbac.authorization.k8s.io/v1/RoleBinding",
        metadata=metadata,
        roleRef=role_ref("Role", name),
        subjects=[account],
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[role])),
    )
    return [role, binding]


def immutable_config_map(
    prefix: str,
    namespace: str,
    opts: pulumi.ResourceOptions,
    *,
    text: Mapping[str, str] | None = None,
    binary: Mapping[str, str] | None = None,
) -> tuple[str, KubernetesObject]:
    """Create an immutable ConfigMap. Return its name, which contains a hash of its content, and the resource.

    `text` maps keys to strings, and `binary` maps keys to base64 data. Different content creates a different
    ConfigMap, so that pods restart and nobody can change data that a running pod reads.
    """
    name = f"{prefix}-{content_hash(dict(text or binary or {}))}"
    config_map = KubernetesObject(
        name,
        "v1/ConfigMap",
        metadata={"name": name, "namespace": namespace},
        data=text,
        binaryData=binary,
        immutable=True,
        opts=opts,
    )
    return name, config_map
