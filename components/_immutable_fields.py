"""Fields that the API server does not let change: an object with such a change is deleted and created again.

The embedded engine learns them from the server's answer. Pulumi has to know them before, and its Kubernetes
provider knows neither scheduling.k8s.io nor custom resources. `tests/e2e/test_immutable_fields.py` compares the
table with the API server. Sources: pkg/apis/*/validation of kubernetes/kubernetes v1.36.3; read 2026-11-28.

Some kinds are not here because deleting them first is wrong. Kueue's ResourceFlavor and Topology and Trainer's
TrainingRuntime keep a finalizer while others name them, so each of their contents has another name. Claims of
members have data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

IMMUTABLE_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "apps/DaemonSet": ("spec.selector",),
    "apps/Deployment": ("spec.selector",),
    "batch/Job": ("spec",),  # parts of it can change, but not those that a declared job has
    "core/PersistentVolume": ("spec",),  # but for capacity and reclaim policy, which never change here
    "jobset.x-k8s.io/JobSet": ("spec",),
    "rbac.authorization.k8s.io/ClusterRoleBinding": ("roleRef",),
    "rbac.authorization.k8s.io/RoleBinding": ("roleRef",),
    "resource.k8s.io/ResourceClaimTemplate": ("spec",),
    "resource.nvidia.com/ComputeDomain": ("spec",),
    "scheduling.k8s.io/PriorityClass": ("value", "preemptionPolicy"),
    "storage.k8s.io/StorageClass": ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"),
    "trainer.kubeflow.org/TrainJob": ("spec",),
}
"""Paths of fields by API group and kind."""
