"""Limits for the volumes of teams' pods, and for how long these pods can prevent the removal of their node. The
policy pack and the admission rules both check the limits.

Each limit is defined only here. The two checks are separate implementations. A test compares their verdicts.

Sources: Kubernetes API reference 1.36, Volume; Kubernetes docs, Pod Security Standards (restricted allows every
CSI driver, baseline every kind of volume except hostPath), "CSI ephemeral volumes" (some drivers are not safe for
users to name); kubernetes/autoscaler, cluster-autoscaler/FAQ.md (safe-to-evict); Karpenter docs 1.8, "Disruption"
(do-not-disrupt); GKE docs, Cloud Storage FUSE CSI driver. Read 2026-11-25.
"""

from __future__ import annotations

from typing import Final

BARE_POD: Final = "bare-pod"
"""ID of the rule that refuses pods without a controller."""
REFUSED_VOLUMES: Final = (
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "glusterfs",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
)
"""Kinds of volumes whose definition names a server or a disk. The node mounts them, bypassing network policies and
claims.

hostPath is not listed, because Pod Security covers it.
"""
INLINE_CSI_DRIVERS: Final = ("gcsfuse.csi.storage.gke.io",)
"""CSI drivers that pods may use for inline volumes, because these drivers mount volumes with the identity of the
pod.
"""
SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
"""Annotation that, with the value "false", prevents the Cluster Autoscaler from removing the pod's node."""
KEEP_FROM_KARPENTER: Final = "karpenter.sh/do-not-disrupt"
"""Annotation that, with the value "true", prevents current versions of Karpenter from removing the pod's node."""
DO_NOT_DISRUPT: Final = (
    "karpenter.sh/do-not-consolidate",
    KEEP_FROM_KARPENTER,
    "karpenter.sh/do-not-evict",
)
"""Annotations that prevent Karpenter from removing a pod's node, unless their value is "false"."""
LEAVING_TAINTS: Final = (
    "ToBeDeletedByClusterAutoscaler",
    "karpenter.sh/disrupted",
    "node.kubernetes.io/unschedulable",
)
"""Keys of the NoSchedule taints on nodes that are being drained. A pod that tolerates such a taint can be
scheduled on the node again.

Sources: kubernetes/autoscaler, cluster-autoscaler/utils/taints/taints.go; Karpenter docs 1.8, "Disruption";
Kubernetes docs, Taints and Tolerations. Read 2026-11-28.
"""
LONGEST_PIN_SECONDS: Final = 31 * 86_400
"""Maximum deadline of pods that prevent the removal of their node, in seconds."""
LONGEST_GRACE_SECONDS: Final = 3600
"""Maximum time between SIGTERM and SIGKILL in seconds, unless the stack file sets a higher limit. A drain can wait
this long.
"""


def keeps_node(annotation: str, value: str) -> bool:
    """Return whether a pod annotation prevents an autoscaler from removing the pod's node."""
    return value == "false" if annotation == SAFE_TO_EVICT else annotation in DO_NOT_DISRUPT and value != "false"


WORKLOAD_OF_OTHERS: Final = (
    "kueue.x-k8s.io/pod-group-name",
    "kueue.x-k8s.io/prebuilt-workload-name",
    "leaderworkerset.sigs.k8s.io/name",
)
"""Labels and annotations that make a pod run under the Kueue Workload of other pods, or under none.

Kueue may then count too few pods. Other pods may already run under a prebuilt Workload. For a pod group, Kueue
counts one pod per role, and each pod sets its own role. Kueue removes the gate of a pod with the name of a
LeaderWorkerSet if no StatefulSet of the LeaderWorkerSet owns the pod (kubernetes-sigs/kueue v0.19.2,
pkg/controller/jobs/pod and leaderworkerset, reconcilePod; read 2026-12-01).
"""
PARENT_ANNOTATION: Final = "kueue.x-k8s.io/pod-suspending-parent"
"""Annotation with the name of the Kueue integration that starts a pod. Kueue's webhook writes it to pod templates.

Kueue adds a scheduling gate to each pod with this annotation. Unlike for other pods
without an owner, it creates no Workload for the pod.
"""
PARENTS: Final = {
    "Deployment": "deployment",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/leaderworkerset",
    "StatefulSet": "statefulset",
}
"""The values that Kueue's webhook writes to `PARENT_ANNOTATION`, by kind (kubernetes-sigs/kueue v0.19.2,
pkg/controller/jobs; read 2026-12-01).
"""
