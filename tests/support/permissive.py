"""CustomResourceDefinitions that admit any content, so that policies receive objects exactly as members write
them.
"""

from __future__ import annotations

from typing import Any


def permissive(api_version: str, kind: str, plural: str) -> dict[str, Any]:
    """Return the CustomResourceDefinition of a namespaced kind with any content."""
    group, _, served = api_version.partition("/")
    content = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"kind": kind, "plural": plural, "singular": kind.casefold(), "listKind": f"{kind}List"}
    versions = [{"name": served, "served": True, "storage": True, "schema": content}]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # Kubernetes requires this annotation for API groups of its projects.
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, experimental-only"},
        },
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": versions},
    }


KEDA = tuple(
    permissive("keda.sh/v1alpha1", kind, f"{kind.casefold()}s")
    for kind in ("ScaledObject", "ScaledJob", "TriggerAuthentication")
)
ROUTES = tuple(
    permissive("gateway.networking.k8s.io/v1", kind, f"{kind.casefold()}s") for kind in ("HTTPRoute", "GRPCRoute")
)
TRAIN_JOBS = permissive("trainer.kubeflow.org/v1alpha1", "TrainJob", "trainjobs")
JOB_SETS = permissive("jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets")
GRANTS = permissive("gateway.networking.k8s.io/v1beta1", "ReferenceGrant", "referencegrants")
RAY = tuple(
    permissive("ray.io/v1", kind, f"{kind.casefold()}s") for kind in ("RayCluster", "RayJob", "RayService")
)
