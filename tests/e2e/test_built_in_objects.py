"""The API server accepts, with strict field validation, every built-in object of the shipped stacks for clouds.

Components write objects as manifests, so no type checker knows their fields.
"""

from __future__ import annotations

import pytest

from gpu_platform.live.client import KubernetesClient, Refused
from sandbox.control_plane import Status
from tests.support.recorded import record_shipped

# A separate group, because other tests create the same namespaces.
pytestmark = pytest.mark.xdist_group("e2e-built-in")

BUILT_IN = {
    "core/v1",
    "apps/v1",
    "batch/v1",
    "admissionregistration.k8s.io/v1",
    "networking.k8s.io/v1",
    "rbac.authorization.k8s.io/v1",
    "resource.k8s.io/v1",
    "scheduling.k8s.io/v1",
    "storage.k8s.io/v1",
}


@pytest.mark.parametrize(
    "stack",
    [
        "eks-training",
        "gke-monitoring",
        pytest.param("gke-training", marks=pytest.mark.long),
        pytest.param("eks-monitoring", marks=pytest.mark.long),
    ],
)
def test_every_built_in_object_has_only_fields_of_its_kind(sandbox: Status, stack: str) -> None:
    client = KubernetesClient(sandbox.kubeconfig)
    types = [(record, record.type.split(":")) for record in record_shipped(stack).resources]
    manifests = [record.inputs for record, parts in types if parts[0] == "kubernetes" and parts[1] in BUILT_IN]
    assert len(manifests) > 50
    for namespace in {manifest["metadata"].get("namespace") for manifest in manifests} - {None}:
        if client.get("v1", "Namespace", namespace) is None:
            client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    for manifest in manifests:
        client.apply(manifest, dry_run=True)


def test_a_misspelt_field_of_a_built_in_object_is_refused(sandbox: Status) -> None:
    client = KubernetesClient(sandbox.kubeconfig)
    spec = {"podSelectr": {}}
    metadata = {"name": "typo", "namespace": "default"}
    policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec}
    with pytest.raises(Refused, match="podSelectr"):
        client.apply(policy, dry_run=True)
