"""Fields that the API server does not let change: an object with such a change is deleted and created again.

The embedded engine learns them from the server's answer. Pulumi has to know them before, and its Kubernetes
provider knows neither scheduling.k8s.io nor custom resources. `tests/e2e/test_immutable_fields.py` compares the
table with the API server. Sources: pkg/apis/*/validation of kubernetes/kubernetes v1.36.3; for the label of the
queue and what queues count pkg/controller/jobframework/validation.go, jobs/leaderworkerset and pkg/util/pod/pod.go
(SpecShape) of kubernetes-sigs/kueue v0.19.2, whose webhooks judge what runs or has ended; read 2026-11-28.

Some kinds are not here because deleting them first is wrong. Kueue's ResourceFlavor and Topology and Trainer's
TrainingRuntime keep a finalizer while others name them, so each of their contents has another name. Claims of
members have data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gpu_platform.base import names

_QUEUE: Final = f'metadata.labels["{names.QUEUE_LABEL}"]'

IMMUTABLE_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "apps/DaemonSet": ("spec.selector",),
    "apps/Deployment": ("spec.selector",),
    "batch/Job": ("spec", _QUEUE),  # parts of it can change, but not those that a declared job has
    "core/PersistentVolume": ("spec.csi", "spec.nfs"),
    "jobset.x-k8s.io/JobSet": ("spec", _QUEUE),
    "leaderworkerset.x-k8s.io/LeaderWorkerSet": (_QUEUE,),
    "ray.io/RayCluster": (_QUEUE,),
    "rbac.authorization.k8s.io/ClusterRoleBinding": ("roleRef",),
    "rbac.authorization.k8s.io/RoleBinding": ("roleRef",),
    "resource.k8s.io/ResourceClaimTemplate": ("spec",),
    "resource.nvidia.com/ComputeDomain": ("spec",),
    "scheduling.k8s.io/PriorityClass": ("value", "preemptionPolicy"),
    "storage.k8s.io/StorageClass": ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"),
    "trainer.kubeflow.org/TrainJob": ("spec", _QUEUE),
}
"""Paths of fields by API group and kind."""

_COUNTED: Final = (
    *(
        f"{kind}[*].{field}"
        for kind in ("containers", "initContainers")
        for field in ("resources.requests", "ports")
    ),
    *("nodeSelector", "tolerations", "priorityClassName", "topologySpreadConstraints", "resourceClaims"),
)
IMMUTABLE_IN_QUEUES: Final[Mapping[str, tuple[str, ...]]] = {
    "leaderworkerset.x-k8s.io/LeaderWorkerSet": (
        "spec.leaderWorkerTemplate.size",
        *(
            f"spec.leaderWorkerTemplate.{template}.spec.{field}"
            for template in ("leaderTemplate", "workerTemplate")
            for field in _COUNTED
        ),
    )
}
"""Further paths of an object with the label of a queue."""
