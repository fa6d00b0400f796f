"""Resources that several components create in the same way: namespace, rights, ConfigMap, restricted pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pulumi
import pulumi_kubernetes as k8s

from gpu_platform.planning.config_maps import content_hash

_NOBODY: Final = 65534


def own_namespace(
    name: str, pod_security: str, opts: pulumi.ResourceOptions, labels: Mapping[str, str] | None = None
) -> k8s.core.v1.Namespace:
    """Create a component's namespace, whose pods Pod Security holds to a level."""
    return k8s.core.v1.Namespace(
        name,
        metadata=k8s.meta.v1.ObjectMetaArgs(
            name=name, labels={"pod-security.kubernetes.io/enforce": pod_security, **(labels or {})}
        ),
        opts=opts,
    )


def restricted_pod() -> k8s.core.v1.PodSecurityContextArgs:
    """Return the security context of a pod that Pod Security's level `restricted` admits."""
    return k8s.core.v1.PodSecurityContextArgs(
        run_as_non_root=True,
        run_as_user=_NOBODY,
        run_as_group=_NOBODY,
        seccomp_profile=k8s.core.v1.SeccompProfileArgs(type="RuntimeDefault"),
    )


def restricted_container() -> k8s.core.v1.SecurityContextArgs:
    """Return the security context of a container of such a pod, which writes no files of its image."""
    return k8s.core.v1.SecurityContextArgs(
        allow_privilege_escalation=False,
        read_only_root_filesystem=True,
        capabilities=k8s.core.v1.CapabilitiesArgs(drop=["ALL"]),
    )


def role_ref(kind: str, name: str) -> k8s.rbac.v1.RoleRefArgs:
    """Return the reference of a binding to a Role or a ClusterRole."""
    return k8s.rbac.v1.RoleRefArgs(api_group="rbac.authorization.k8s.io", kind=kind, name=name)


def grant(
    logical: str,
    account: k8s.rbac.v1.SubjectArgs,
    namespace: str,
    rules: Sequence[k8s.rbac.v1.PolicyRuleArgs],
    opts: pulumi.ResourceOptions,
) -> list[pulumi.Resource]:
    """Create a Role in a namespace, named after the account that it is for, and its binding.

    `logical`: the name of both in the program.
    """
    metadata = k8s.meta.v1.ObjectMetaArgs(name=account.name, namespace=namespace)
    name = str(account.name)
    role = k8s.rbac.v1.Role(logical, metadata=metadata, rules=list(rules), opts=opts)
    binding = k8s.rbac.v1.RoleBinding(
        logical,
        metadata=metadata,
        role_ref=role_ref("Role", name),
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
) -> tuple[str, k8s.core.v1.ConfigMap]:
    """Return the name and the resource of a ConfigMap that is named after its content.

    `text` by key, or `binary` by key in base64. Other content is another ConfigMap: pods roll, and nobody can
    change what a running pod reads.
    """
    name = f"{prefix}-{content_hash(dict(text or binary or {}))}"
    config_map = k8s.core.v1.ConfigMap(
        name,
        metadata=k8s.meta.v1.ObjectMetaArgs(name=name, namespace=namespace),
        data=text,
        binary_data=binary,
        immutable=True,
        opts=opts,
    )
    return name, config_map
