"""Reads the installed software of an existing cluster through its kubeconfig."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from gpu_platform.base import names
from gpu_platform.base.errors import UnknownOutcome
from gpu_platform.catalog import Catalog
from gpu_platform.live.client import KubernetesClient, Refused
from gpu_platform.live.cluster_access import client_of
from gpu_platform.live.connection import Limits
from gpu_platform.live.objects import items_at, mapping_at
from gpu_platform.online.cluster.installed import Installed, Workload, compare_installed
from gpu_platform.online.finding import Lookup, NotLookedAt, OnlineFinding
from gpu_platform.planning.plan import EnvironmentPlan

TITLE: Final = "installed software of the cluster"
_LIMITS: Final = Limits(connect=5, read=20, total=30)
_HELM_RELEASE: Final = "meta.helm.sh/release-name"
_HELM_NAMESPACE: Final = "meta.helm.sh/release-namespace"
_MANAGED_BY: Final = "app.kubernetes.io/managed-by"


def installed_lookup(
    plan: EnvironmentPlan, kubeconfig: Callable[[], str | None] | None, catalog: Catalog
) -> Lookup:
    """Return the lookup of installed software.

    `kubeconfig` returns the kubeconfig from the cloud. If `kubeconfig` is None, the kubeconfig in the stack file
    is used.
    """

    def look() -> Iterable[OnlineFinding]:
        try:
            client = client_of(plan) if kubeconfig is None else client_with(plan, kubeconfig())
            return list(compare_installed(plan, read_installed(client.limited(_LIMITS)), catalog))
        except Refused as refusal:
            fix = "grant the user list on Deployments, DaemonSets, CRDs and admission policies (ClusterRole view)"
            raise NotLookedAt(f"the API server refused: {refusal}", fix) from refusal
        except UnknownOutcome as reason:
            raise NotLookedAt(str(reason), "check the kubeconfig and the network") from reason

    return Lookup(title=TITLE, look=look)


def read_installed(client: KubernetesClient) -> Installed:
    """Return the installed software of a cluster. Raises UnknownOutcome and Refused."""
    workloads = [
        _workload(kind, one) for kind in ("Deployment", "DaemonSet") for one in client.objects("apps/v1", kind)
    ]
    definitions = client.objects("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    policies = client.objects("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy")
    return Installed(
        workloads=tuple(workloads),
        crds={str(one["metadata"]["name"]): one for one in definitions},
        admission_policies=tuple(sorted(str(one["metadata"]["name"]) for one in policies)),
        deployed=client.get("v1", "Namespace", names.VALIDATION_NAMESPACE) is not None,
    )


def client_with(plan: EnvironmentPlan, kubeconfig: str | None) -> KubernetesClient:
    """Return a client for a kubeconfig that is passed as a string.

    Raises NotLookedAt if there is no kubeconfig, and UnknownOutcome if the kubeconfig cannot be used.
    """
    if kubeconfig is None:
        raise NotLookedAt(f"there is no cluster {plan.cluster.name}", "see the result for the cluster")
    with tempfile.NamedTemporaryFile("w", prefix="gpu-platform-kubeconfig-", encoding="utf-8") as file:
        file.write(kubeconfig)
        file.flush()
        return KubernetesClient(Path(file.name), source=f"the kubeconfig of {plan.cluster.name}")


def _workload(kind: str, one: Mapping[str, Any]) -> Workload:
    pod = mapping_at(one, "spec", "template", "spec")
    containers = [*items_at(pod, "initContainers"), *items_at(pod, "containers")]
    return Workload(
        kind=kind,
        namespace=one["metadata"]["namespace"],
        name=one["metadata"]["name"],
        images=tuple(str(container.get("image", "")) for container in containers),
        owner=", ".join(_owner(one)),
        selective=bool(pod.get("nodeSelector") or mapping_at(pod, "affinity", "nodeAffinity")),
    )


def _owner(one: Mapping[str, Any]) -> Iterator[str]:
    annotations = mapping_at(one, "metadata", "annotations")
    if release := annotations.get(_HELM_RELEASE):
        yield f"Helm release {annotations.get(_HELM_NAMESPACE, '')}/{release}"
    elif manager := mapping_at(one, "metadata", "labels").get(_MANAGED_BY):
        yield f"managed by {manager}"
