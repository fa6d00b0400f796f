"""Immutable fields of Kubernetes objects. Pulumi deletes and recreates an object if one of these fields changes.

The embedded engine of gpu-platform detects an immutable field by the API server's response. Pulumi needs the list
of fields in advance, and the list in its Kubernetes provider does not include scheduling.k8s.io or custom
resources. `tests/e2e/test_immutable_fields.py` compares the table with the API server.

Sources, read 2026-11-28: pkg/apis/*/validation of kubernetes/kubernetes v1.36.3. The queue label and the fields
that affect quota come from pkg/controller/jobframework/validation.go, jobs/leaderworkerset and pkg/util/pod/pod.go
(SpecShape) of kubernetes-sigs/kueue v0.19.2. Kueue's webhooks reject these changes to workloads that are running
or have finished. The fields of a NodeReadinessRule come from the CRD of kubernetes-sigs/node-readiness-controller
v0.3.0 and newer; read 2026-11-30.

The table omits kinds that must not be deleted before they are recreated. Kueue's ResourceFlavor and Topology and
Trainer's TrainingRuntime keep a finalizer while other objects refer to them, so their names change with their
content. PersistentVolumeClaims contain the members' data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gpu_platform.base import names

_QUEUE: Final = f'metadata.labels["{names.QUEUE_LABEL}"]'

IMMUTABLE_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "apps/DaemonSet": ("spec.selector",),
    "apps/Deployment": ("spec.selector",),
    "batch/Job": ("spec", _QUEUE),  # some fields of the spec are mutable, but declared jobs do not set them
    "core/PersistentVolume": ("spec.csi", "spec.nfs"),
    "jobset.x-k8s.io/JobSet": ("spec", _QUEUE),
    "leaderworkerset.x-k8s.io/LeaderWorkerSet": (_QUEUE,),
    "ray.io/RayCluster": (_QUEUE,),
    "rbac.authorization.k8s.io/ClusterRoleBinding": ("roleRef",),
    "rbac.authorization.k8s.io/RoleBinding": ("roleRef",),
    "readiness.node.x-k8s.io/NodeReadinessRule": ("spec",),
    "resource.k8s.io/ResourceClaimTemplate": ("spec",),
    "resource.nvidia.com/ComputeDomain": ("spec",),
    "scheduling.k8s.io/PriorityClass": ("value", "preemptionPolicy"),
    "storage.k8s.io/StorageClass": ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"),
    "trainer.kubeflow.org/TrainJob": ("spec", _QUEUE),
}
"""Paths of immutable fields, by API group and kind."""

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
"""Additional paths that are immutable if the object has a queue label, by API group and kind."""
