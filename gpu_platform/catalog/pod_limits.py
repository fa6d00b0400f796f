"""Limits of volumes of teams' pods and of how long they keep a node, for the policy pack and admission rules.

Each limit is defined here once. The two judge by code of their own; a test compares their verdicts.

Sources: Kubernetes API reference 1.36, Volume; Kubernetes docs, Pod Security Standards (restricted allows every
CSI driver, baseline every kind of volume but hostPath), "CSI ephemeral volumes" (a driver may not be safe for
users to name); kubernetes/autoscaler, cluster-autoscaler/FAQ.md (safe-to-evict); Karpenter docs 1.8, "Disruption"
(do-not-disrupt); GKE docs, Cloud Storage FUSE CSI driver. Read 2026-11-25.
"""

from __future__ import annotations

from typing import Final

BARE_POD: Final = "bare-pod"
"""The id of the rule that refuses pods without a controller."""
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
"""Kinds of volumes that name a server or a disk: the node mounts it, past network policies and claims.

hostPath is Pod Security's.
"""
INLINE_CSI_DRIVERS: Final = ("gcsfuse.csi.storage.gke.io",)
"""CSI drivers whose volumes a pod may write inline: they mount with the identity of the pod."""
SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
"""The annotation that keeps a pod's node from the Cluster Autoscaler where it is "false"."""
KEEP_FROM_KARPENTER: Final = "karpenter.sh/do-not-disrupt"
"""The annotation that keeps a pod's node from today's Karpenter where it is "true"."""
DO_NOT_DISRUPT: Final = (
    "karpenter.sh/do-not-consolidate",
    KEEP_FROM_KARPENTER,
    "karpenter.sh/do-not-evict",
)
"""Annotations that keep a pod's node from Karpenter, unless they are "false"."""
LEAVING_TAINTS: Final = (
    "ToBeDeletedByClusterAutoscaler",
    "karpenter.sh/disrupted",
    "node.kubernetes.io/unschedulable",
)
"""Keys of the NoSchedule taints of nodes that are drained: a pod that tolerates one comes back to the node.

Sources: kubernetes/autoscaler, cluster-autoscaler/utils/taints/taints.go; Karpenter docs 1.8, "Disruption";
Kubernetes docs, Taints and Tolerations. Read 2026-11-28.
"""
LONGEST_PIN_SECONDS: Final = 31 * 86_400
"""The longest deadline of pods that keep their node."""
LONGEST_GRACE_SECONDS: Final = 3600
"""The longest time between SIGTERM and SIGKILL, unless the stack file declares a longer one: a drain waits."""


def keeps_node(annotation: str, value: str) -> bool:
    """Return whether an annotation of a pod keeps an autoscaler from removing its node."""
    return value == "false" if annotation == SAFE_TO_EVICT else annotation in DO_NOT_DISRUPT and value != "false"


WORKLOAD_OF_OTHERS: Final = ("kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/prebuilt-workload-name")
"""Labels and annotations by which pods run on a Workload of Kueue that is not their own.

A prebuilt Workload may be one that others run on already. Of a group Kueue counts one pod of each role, and a pod
names its role itself (kubernetes-sigs/kueue v0.19.2, pkg/controller/jobs/pod; read 2026-11-25).
"""
