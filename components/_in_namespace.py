"""Objects that several components create in namespaces: rights of an account, and files of a pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pulumi
import pulumi_kubernetes as k8s

from gpu_platform.planning.config_maps import content_hash


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
