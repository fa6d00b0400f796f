"""Kubernetes provider of a cluster, with the settings that all clusters share."""

from __future__ import annotations

from typing import Any, Final

import pulumi
import pulumi_kubernetes as k8s

from components._kubernetes_object import KubernetesObject

_UPSERT: Final = True
"""Take over an existing object instead of failing with "already exists".

The provider must take over the retained namespace of a team that is declared again. It must also take over objects
that a killed `up` created.
"""

_FORCE: Final = True
"""Apply the declared fields even if another field manager owns them.

Each creation has its own field manager. Without this setting, the fields of an object that a killed `up` created
would conflict with every later change. Manual changes to declared fields are overwritten. `gpu-platform` checks
beforehand that it does not take over other people's objects (deploy/pulumi/takeover.py).
"""
_SYSTEM: Final = "kube-system"


def kubernetes_provider(
    name: str,
    opts: pulumi.ResourceOptions,
    *,
    kubeconfig: pulumi.Input[str] | None,
    context: pulumi.Input[str] | None,
    identity: pulumi.Input[str] | None = None,
    created: pulumi.Resource | None = None,
) -> k8s.Provider:
    """Return the provider for the objects in a cluster.

    `identity` is a value that identifies the cluster and never changes, or None if no such value is known. With an
    identity, Pulumi replaces the provider and all its objects only if the identity changes. Without one, it also
    replaces them if the address or the certificate authority in the kubeconfig changes or is unknown in a preview.
    The new provider takes the objects over, and Pulumi then deletes them from the same cluster (pulumi-kubernetes
    v4.34.2, provider.go, DiffConfig; pulumi/pulumi-kubernetes#4019; read 2026-11-30).

    `created` is the cluster if this program creates it. When Pulumi replaces the cluster, it first deletes the
    objects with the old provider. Without `deleted_with`, Pulumi first asks the old provider whether it must be
    replaced, and then closes it. Every deletion then fails with "grpc: the client connection is closing" (pulumi
    v3.260.0, providers/registry.go, Diff, and calculateDependentReplacements in step_generator.go;
    pulumi/pulumi#14650, open; read 2026-12-01).
    """
    if created is not None:
        opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(deleted_with=created))
    return k8s.Provider(
        name,
        kubeconfig=kubeconfig,
        context=context,
        cluster_identifier=identity,
        upsert_existing_objects=_UPSERT,
        enable_patch_force=_FORCE,
        opts=opts,
    )


def cluster_identity(
    name: str,
    opts: pulumi.ResourceOptions,
    *,
    kubeconfig: pulumi.Input[str] | None,
    context: pulumi.Input[str] | None,
) -> pulumi.Output[Any]:
    """Return the UID of the namespace `kube-system`, which identifies a cluster that another program created.

    This namespace lives as long as its cluster (OpenTelemetry, semantic conventions, `k8s.cluster.uid`; read
    2026-11-30). A separate provider reads it, because the UID is an input of the provider that creates objects. If
    the address of the cluster changes, Pulumi replaces only the separate provider, which owns no object.
    """
    reader = kubernetes_provider(f"{name}-identity", opts, kubeconfig=kubeconfig, context=context)
    namespace = KubernetesObject(
        f"{name}-identity",
        "v1/Namespace",
        pulumi.ResourceOptions(parent=opts.parent, provider=reader, id=_SYSTEM),
        metadata={"name": _SYSTEM},
    )
    # The UID is missing only in a recorded run, which reads nothing.
    return namespace.metadata.apply(lambda metadata: metadata.get("uid"))
