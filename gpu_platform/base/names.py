"""Names that several packages share: labels, annotations, resource names, namespaces.

Names under `nvidia.com/` are defined by NVIDIA (GPU Operator, device plugin, feature discovery, MIG manager);
names under `gpu-platform.dev/` by this project.
"""

from __future__ import annotations

import re
from typing import Final

RESERVED_DOMAINS: Final = ("gpu-platform.dev", "nvidia.com", "kubernetes.io", "k8s.io")
"""Domains of labels and annotations that the program, Kubernetes and its controllers set, subdomains too."""

# -- gpu-platform -----------------------------------------------------------------------------------------
POOL_LABEL: Final = "gpu-platform.dev/pool"
MACHINE_TYPE_LABEL: Final = "gpu-platform.dev/machine-type"
WORKLOAD_LABEL: Final = "gpu-platform.dev/workload"
SHARING_LABEL: Final = "gpu-platform.dev/sharing"
TEAM_LABEL: Final = "gpu-platform.dev/team"
COMPUTE_CLASS_LABEL: Final = "gpu-platform.dev/compute-class"  # on GKE its own: cloud.google.com/compute-class
STACK_LABEL: Final = "gpu-platform.dev/stack"
TOPOLOGY_POLICY_LABEL: Final = "gpu-platform.dev/topology-policy"  # the kubelet's Topology Manager policy
MIG_CHANGE_LABEL: Final = "gpu-platform.dev/mig-change"  # how a MIG layout changes: drain | replace | live

# A namespace whose team left its stack: it stays with what members made. The platform's policies and limits in it
# stay too, and have the label alone.
KEPT_LABEL: Final = "gpu-platform.dev/kept"
"""On claims of a stack file's workloads, which outlive their entry: what members wrote is in them."""
GUIDE_CONFIG_MAP: Final = "gpu-platform-guide"  # in each team's namespace: what its members need to know
CLEANUP_NAMESPACE: Final = "gpu-platform-cleanup"
HEADROOM_NAMESPACE: Final = "gpu-platform-headroom"  # whose pods hold GPUs until others need them
IDLE_LABEL: Final = "gpu-platform.dev/ends-when-idle"  # "true" on pods: the clean-up may end what they are of
CLEANUP_LABEL: Final = "gpu-platform.dev/cleanup"  # "never": the clean-up leaves the object alone
EXPIRES_LABEL: Final = "gpu-platform.dev/expires-on"  # a date, UTC: the clean-up may end the object after it
RETAINED_LABEL: Final = "gpu-platform.dev/retained"  # "true"
RETAINED_SINCE_ANNOTATION: Final = "gpu-platform.dev/retained-since"  # RFC 3339, UTC
RETAINED_FROM_ANNOTATION: Final = "gpu-platform.dev/retained-from"  # the stack; the team is TEAM_LABEL
POD_SECURITY_LABEL: Final = "gpu-platform.dev/pod-security"  # level of a namespace that policies enforce
POD_SECURITY_POLICY: Final = "pod-security-of"  # beginnings of the names of these policies
EXEC_POLICY: Final = "exec-of"
RETAINED_QUOTA: Final = "retained"  # name of the ResourceQuota that keeps new GPU pods out of a retained namespace

GPU_MEMORY_ANNOTATION: Final = (
    "gpu-platform.dev/gpu-memory"  # on pods: memory that they need on each of their GPUs
)
CHECKPOINTS_ANNOTATION: Final = (
    "gpu-platform.dev/checkpoints"  # on pods that continue from saved state; its value is where that is
)

MIG_ROLLOUT_ANNOTATION: Final = (
    "gpu-platform.dev/mig-rollout"  # on nodes that `up` cordoned; its value is the reason
)
ROLLED_VARIABLE: Final = "GPU_PLATFORM_ROLLED"  # environment: JSON, MIG config by pool that all live nodes have
RESIZED_VARIABLE: Final = "GPU_PLATFORM_RESIZED"  # environment: JSON, pools whose `count` this `up` applies
HELD_VARIABLE: Final = (
    "GPU_PLATFORM_HELD"  # environment: JSON, by team the stopPolicy of its queues that somebody holds, by kind
)
SYSTEM_NODES: Final = "cluster.create.system"  # stands for the system nodes in RESIZED_VARIABLE
MIG_FIELD_MANAGER: Final = "gpu-platform-mig"  # field manager of the MIG label of live nodes; suffix `-<stack>`
TAINTS_ANNOTATION: Final = (
    "gpu-platform.dev/taints"  # on created nodes: the declared taints, others are not touched
)

GRANTED_ANNOTATION: Final = "gpu-platform.dev/granted"  # on a ResourceQuota that allows borrowing: the quota
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
# Annotations of pods, for Kueue: near each other, near if there is room, or on any nodes.
TOPOLOGY_ANNOTATIONS: Final = {
    "required": "kueue.x-k8s.io/podset-required-topology",
    "preferred": "kueue.x-k8s.io/podset-preferred-topology",
    "unconstrained": "kueue.x-k8s.io/podset-unconstrained-topology",
}

NAME_LABEL: Final = "app.kubernetes.io/name"
VERSION_LABEL: Final = "app.kubernetes.io/version"  # on the ClusterPolicy: the operator's release
FIELD_MANAGER: Final = "gpu-platform"

VALIDATION_NAMESPACE: Final = "gpu-platform-validation"
VALIDATION_APP: Final = "gpu-node-validation"  # value of NAME_LABEL on the agent's DaemonSets and pods
VALIDATED_LABEL: Final = "gpu-platform.dev/validated"  # on a node that passes: the hash of its expectations
VALIDATED_CONDITION: Final = "GpuPlatformValidated"  # of a node that an agent has checked
# The prefixes tell autoscalers that a new node loses the taint once it has started, or that it is about one node
# alone: kubernetes/autoscaler, cluster-autoscaler/utils/taints/taints.go, read 2026-11-25.
STARTUP_TAINT_KEY: Final = "startup-taint.cluster-autoscaler.kubernetes.io/gpu-unvalidated"  # until a node passes
# As the CRD NodeReadinessRule has it: its prefix is fixed.
READINESS_TAINT_KEY: Final = (
    "readiness.k8s.io/gpu-platform-validated"  # instead, with the Node Readiness Controller
)
FAILED_TAINT_KEY: Final = "status-taint.cluster-autoscaler.kubernetes.io/gpu-failed"  # while a check fails later
CORDON_ANNOTATION: Final = "gpu-platform.dev/cordoned"  # on nodes that the node agent has cordoned: since when
RESETS_ANNOTATION: Final = "gpu-platform.dev/gpu-resets"  # of the node agent: when it has seen resets of GPUs
VALIDATION_REPORT_LABEL: Final = "gpu-platform.dev/validation-report"  # on the agent's report ConfigMaps
BURN_IN_NAMESPACE: Final = "gpu-platform-burn-in"
BURN_IN_LABEL: Final = "gpu-platform.dev/burn-in"  # on pods and objects of active checks, and on their results
OPERATOR_NAMESPACE: Final = "gpu-operator"
CLUSTER_POLICY: Final = "cluster-policy"  # name of the only ClusterPolicy object, from the Helm chart

# -- the sandbox ------------------------------------------------------------------------------------------
SANDBOX_MACHINE_ANNOTATION: Final = "sandbox.gpu-platform.dev/machine-type"  # machine type that a node simulates
SANDBOX_DRIVER_ANNOTATION: Final = "sandbox.gpu-platform.dev/driver-version"  # that a new node starts with
SANDBOX_RUNNING_DRIVER_ANNOTATION: Final = "sandbox.gpu-platform.dev/running-driver"  # of the simulated operator
SANDBOX_TOPOLOGY_SCOPE_ANNOTATION: Final = "sandbox.gpu-platform.dev/topology-scope"  # pod; without it container
SANDBOX_OPERANDS_ANNOTATION: Final = "sandbox.gpu-platform.dev/operands"  # release of a node's simulated operands
SANDBOX_STARTING_TAINT: Final = "sandbox.gpu-platform.dev/starting"  # of a new node of Karpenter's
SANDBOX_FAULTS_CONFIG_MAP: Final = "gpu-faults"  # in SANDBOX_NAMESPACE; key = node name, value = JSON list
SANDBOX_NAMESPACE: Final = "sandbox-system"
# On pods: how long their containers run, and how the first of them ends. The simulator reads them.
SANDBOX_RUN_SECONDS_ANNOTATION: Final = "sandbox.gpu-platform.dev/run-seconds"
SANDBOX_EXIT_CODE_ANNOTATION: Final = "sandbox.gpu-platform.dev/exit-code"
SANDBOX_EXIT_REASON_ANNOTATION: Final = "sandbox.gpu-platform.dev/exit-reason"
KWOK_NODE_ANNOTATION: Final = "kwok.x-k8s.io/node"  # "fake": KWOK simulates this node's kubelet

# -- Kubernetes -------------------------------------------------------------------------------------------
INSTANCE_TYPE_LABEL: Final = "node.kubernetes.io/instance-type"
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
OS_LABELS: Final = {"kubernetes.io/os": "linux"}  # of every node

# -- NVIDIA -----------------------------------------------------------------------------------------------
NVIDIA_PREFIX: Final = "nvidia.com/"  # of resources and labels
GPU_RESOURCE: Final = "nvidia.com/gpu"
SHARED_GPU_RESOURCE: Final = "nvidia.com/gpu.shared"
SHARED_SUFFIX: Final = ".shared"  # appended by the device plugin to the names of shared resources
MIG_RESOURCE_PREFIX: Final = "nvidia.com/mig-"
GPU_RESOURCES: Final = "nvidia[.]com/([pv]?gpu|mig-|[A-Z]).*"
"""Names of resources that are GPUs, their shares and instances, as a pattern of Python, RE2 and CEL.

In capitals are whole GPUs and vGPUs for virtual machines, also `pgpu` (NVIDIA/kubevirt-gpu-device-plugin).
NVIDIA's Network Operator has NICs under the same prefix, with names that its owner chooses: hostdev,
rdma_shared_device_a (docs.nvidia.com/networking, Network Operator, quick start). Read 2026-11-29.
"""
GPU_TAINT_KEY: Final = "nvidia.com/gpu"
GPU_TAINT_VALUE: Final = "present"
GPU_PRESENT_LABEL: Final = "nvidia.com/gpu.present"
GPU_PRODUCT_LABEL: Final = "nvidia.com/gpu.product"
GPU_COUNT_LABEL: Final = "nvidia.com/gpu.count"
GPU_MEMORY_LABEL: Final = "nvidia.com/gpu.memory"
DRIVER_UPGRADE_STATE_LABEL: Final = "nvidia.com/gpu-driver-upgrade-state"
DRIVER_UPGRADE_SKIP_LABEL: Final = "nvidia.com/gpu-driver-upgrade.skip"  # "true" on a node: no driver upgrade
DRIVER_VERSION_LABEL: Final = "nvidia.com/cuda.driver-version.full"
GPU_REPLICAS_LABEL: Final = "nvidia.com/gpu.replicas"
GPU_SHARING_STRATEGY_LABEL: Final = "nvidia.com/gpu.sharing-strategy"
DEVICE_PLUGIN_CONFIG_LABEL: Final = "nvidia.com/device-plugin.config"
DEPLOY_DRIVER_LABEL: Final = "nvidia.com/gpu.deploy.driver"  # "pre-installed" where the host has a driver
DEPLOY_DEVICE_PLUGIN_LABEL: Final = "nvidia.com/gpu.deploy.device-plugin"
DEPLOY_OPERANDS_LABEL: Final = "nvidia.com/gpu.deploy.operands"  # "false" keeps every operand off a node
MIG_CONFIG_LABEL: Final = "nvidia.com/mig.config"
MIG_ALL_DISABLED: Final = "all-disabled"  # mig-parted config that disables MIG
MIG_STATE_LABEL: Final = "nvidia.com/mig.config.state"
MIG_MANAGER_APP: Final = "nvidia-mig-manager"  # label `app` of its pods
MIG_CAPABLE_LABEL: Final = "nvidia.com/mig.capable"
MIG_STRATEGY_LABEL: Final = "nvidia.com/mig.strategy"

GPU_CLIQUE_LABEL: Final = "nvidia.com/gpu.clique"  # NVLink domain of a node
EFA_RESOURCE: Final = "vpc.amazonaws.com/efa"  # of the EFA device plugin
EFA_DRIVER_LABEL: Final = "gpu-platform.dev/efa-driver"  # on nodes whose EFA interfaces pods claim
DRA_DRIVER_CHART: Final = "dra-driver-nvidia-gpu"  # its namespace, too
DRA_DRIVER: Final = "gpu.nvidia.com"
GPU_CLUSTER: Final = "gpu-cluster"  # name of the only GPUCluster object, required by its CRD
GPU_DEVICE_CLASS: Final = "gpu.nvidia.com"
MIG_DEVICE_CLASS: Final = "mig.nvidia.com"
DRIVERS_DEVICE_CLASSES: Final = (GPU_DEVICE_CLASS, MIG_DEVICE_CLASS, "vfio.gpu.nvidia.com")
DRIVER_DOMAINS: Final = (*RESERVED_DOMAINS, "k8s.aws", "google.com")  # of the names of drivers' device classes
NVLINK_CHANNEL_CLASS: Final = "compute-domain-default-channel.nvidia.com"  # of pods in a ComputeDomain
DEVICE_QUOTA_SUFFIX: Final = ".deviceclass.resource.k8s.io/devices"
ADMIN_ACCESS_LABEL: Final = (
    "resource.kubernetes.io/admin-access"  # on namespaces whose claims may have admin access
)

# -- GKE --------------------------------------------------------------------------------------------------
GKE_ACCELERATOR_LABEL: Final = "cloud.google.com/gke-accelerator"
GKE_PARTITION_SIZE_LABEL: Final = "cloud.google.com/gke-gpu-partition-size"
GKE_SHARING_STRATEGY_LABEL: Final = "cloud.google.com/gke-gpu-sharing-strategy"
GKE_SHARED_CLIENTS_LABEL: Final = "cloud.google.com/gke-max-shared-clients-per-gpu"


def is_platform_namespace(namespace: str) -> bool:
    """Return whether a namespace is one of Kubernetes or of the program; charts have others, in the catalogue."""
    own = (OPERATOR_NAMESPACE, DRA_DRIVER_CHART, SANDBOX_NAMESPACE)
    return namespace.startswith(("kube-", "gpu-platform-")) or namespace in own


def is_gpu_resource(name: str) -> bool:
    """Return whether an extended resource is a GPU, a share of one, or a MIG instance."""
    return re.fullmatch(GPU_RESOURCES, name) is not None


def quota_key(resource: str) -> str:
    """Return the ResourceQuota key of an extended resource or, if the name has no slash, of a device class."""
    return f"requests.{resource}" if "/" in resource else resource + DEVICE_QUOTA_SUFFIX


def mig_resource(profile: str) -> str:
    """Return the extended resource of a MIG profile under the `mixed` strategy.

    The device plugin replaces `+` by `.`: `1g.10gb+me` becomes `nvidia.com/mig-1g.10gb.me`.
    """
    return MIG_RESOURCE_PREFIX + profile.replace("+", ".")
