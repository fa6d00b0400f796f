"""Names that several packages share: labels, annotations, resource names, namespaces.

NVIDIA defines the names under `nvidia.com/` (GPU Operator, device plugin, feature discovery, MIG manager). This
project defines the names under `gpu-platform.dev/`.
"""

from __future__ import annotations

import re
from typing import Final

RESERVED_DOMAINS: Final = ("gpu-platform.dev", "nvidia.com", "kubernetes.io", "k8s.io")
"""Domains of labels and annotations that only the program, Kubernetes and the controllers of these domains set.
Subdomains are included.
"""

# -- gpu-platform -----------------------------------------------------------------------------------------
POOL_LABEL: Final = "gpu-platform.dev/pool"
MACHINE_TYPE_LABEL: Final = "gpu-platform.dev/machine-type"
WORKLOAD_LABEL: Final = "gpu-platform.dev/workload"
SHARING_LABEL: Final = "gpu-platform.dev/sharing"
TEAM_LABEL: Final = "gpu-platform.dev/team"
COMPUTE_CLASS_LABEL: Final = "gpu-platform.dev/compute-class"  # GKE uses cloud.google.com/compute-class
STACK_LABEL: Final = "gpu-platform.dev/stack"
TOPOLOGY_POLICY_LABEL: Final = "gpu-platform.dev/topology-policy"  # the kubelet's Topology Manager policy
MIG_CHANGE_LABEL: Final = "gpu-platform.dev/mig-change"  # how a MIG layout is changed: drain, replace or live

KEPT_LABEL: Final = "gpu-platform.dev/kept"
"""Label on the volume claims of declared workloads. The claims are kept when a workload is removed from the stack
file.
"""
GUIDE_CONFIG_MAP: Final = "gpu-platform-guide"  # ConfigMap for members, in each team's namespace
CLEANUP_NAMESPACE: Final = "gpu-platform-cleanup"
HEADROOM_NAMESPACE: Final = "gpu-platform-headroom"  # namespace of pods that keep GPUs free for other pods
IDLE_LABEL: Final = "gpu-platform.dev/ends-when-idle"  # "true" on pods of workloads that may be deleted if idle
CLEANUP_LABEL: Final = "gpu-platform.dev/cleanup"  # "never" on objects that the clean-up ignores
EXPIRES_LABEL: Final = "gpu-platform.dev/expires-on"  # date in UTC after which the clean-up may delete the object
# Labels and annotations of a retained namespace, whose team has left the stack.
# The namespace is kept with everything that members created.
# Policies and limits that stay in the namespace have RETAINED_LABEL, but not the annotations.
RETAINED_LABEL: Final = "gpu-platform.dev/retained"  # always "true"
RETAINED_SINCE_ANNOTATION: Final = "gpu-platform.dev/retained-since"  # time in RFC 3339, UTC
RETAINED_FROM_ANNOTATION: Final = "gpu-platform.dev/retained-from"  # name of the stack that the team has left
POD_SECURITY_LABEL: Final = (
    "gpu-platform.dev/pod-security"  # Pod Security level that policies enforce in a namespace
)
POD_SECURITY_POLICY: Final = "pod-security-of"  # name prefix of the policies that enforce this level
EXEC_POLICY: Final = "exec-of"
RETAINED_QUOTA: Final = "retained"  # ResourceQuota that keeps new GPU pods out of a retained namespace

GPU_MEMORY_ANNOTATION: Final = "gpu-platform.dev/gpu-memory"  # memory that a pod needs on each GPU
CHECKPOINTS_ANNOTATION: Final = (
    "gpu-platform.dev/checkpoints"  # location of a pod's checkpoints, or `none: REASON`
)

MIG_ROLLOUT_ANNOTATION: Final = "gpu-platform.dev/mig-rollout"  # reason why `up` has cordoned a node
ROLLED_VARIABLE: Final = "GPU_PLATFORM_ROLLED"  # JSON with the MIG config of all live nodes, by pool
RESIZED_VARIABLE: Final = "GPU_PLATFORM_RESIZED"  # JSON with the pools to which `up` applies `count`
FAILED_VARIABLE: Final = "GPU_PLATFORM_FAILED"  # JSON with the cloud resources whose creation failed
HELD_VARIABLE: Final = "GPU_PLATFORM_HELD"  # JSON with the stopPolicy of held queues, by team and kind of queue
SYSTEM_NODES: Final = "cluster.create.system"  # stands for the system nodes in RESIZED_VARIABLE
MIG_FIELD_MANAGER: Final = (
    "gpu-platform-mig"  # field manager of the MIG label on live nodes, with the suffix `-<stack>`
)
TAINTS_ANNOTATION: Final = (
    "gpu-platform.dev/taints"  # declared taints of a created node; other taints are not changed
)

GRANTED_ANNOTATION: Final = "gpu-platform.dev/granted"  # quota of a team, on a ResourceQuota that allows borrowing
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
# Pod annotations for Kueue: whether a workload's nodes must be close to each other, should be, or need not be.
TOPOLOGY_ANNOTATIONS: Final = {
    "required": "kueue.x-k8s.io/podset-required-topology",
    "preferred": "kueue.x-k8s.io/podset-preferred-topology",
    "unconstrained": "kueue.x-k8s.io/podset-unconstrained-topology",
}

NAME_LABEL: Final = "app.kubernetes.io/name"
VERSION_LABEL: Final = "app.kubernetes.io/version"  # label with the release of the GPU Operator or of Kueue
FIELD_MANAGER: Final = "gpu-platform"

VALIDATION_NAMESPACE: Final = "gpu-platform-validation"
VALIDATION_APP: Final = "gpu-node-validation"  # value of NAME_LABEL on the agent's DaemonSets and pods
VALIDATED_LABEL: Final = "gpu-platform.dev/validated"  # hash of the expectations that a node has passed
VALIDATED_CONDITION: Final = "GpuPlatformValidated"  # condition of nodes that an agent has checked
# Autoscalers recognize taints by these prefixes. A startup taint is removed later, and a status taint concerns a
# single node. Source: kubernetes/autoscaler, cluster-autoscaler/utils/taints/taints.go, read 2026-11-25.
STARTUP_TAINT_KEY: Final = (
    "startup-taint.cluster-autoscaler.kubernetes.io/gpu-unvalidated"  # taint of nodes until they pass validation
)
# The CRD NodeReadinessRule requires this prefix.
READINESS_TAINT_KEY: Final = (
    "readiness.k8s.io/gpu-platform-validated"  # startup taint that the Node Readiness Controller removes
)
FAILED_TAINT_KEY: Final = "status-taint.cluster-autoscaler.kubernetes.io/gpu-failed"  # taint of failing nodes
CORDON_ANNOTATION: Final = "gpu-platform.dev/cordoned"  # time when the node agent cordoned the node
RESETS_ANNOTATION: Final = "gpu-platform.dev/gpu-resets"  # times when the node agent detected GPU resets
VALIDATION_REPORT_LABEL: Final = "gpu-platform.dev/validation-report"  # label of the agent's report ConfigMaps
BURN_IN_NAMESPACE: Final = "gpu-platform-burn-in"
BURN_IN_LABEL: Final = "gpu-platform.dev/burn-in"  # label of pods, objects and results of active checks
OPERATOR_NAMESPACE: Final = "gpu-operator"
CLUSTER_POLICY: Final = "cluster-policy"  # name of the only ClusterPolicy object; the Helm chart creates it

# -- the sandbox ------------------------------------------------------------------------------------------
SANDBOX_MACHINE_ANNOTATION: Final = "sandbox.gpu-platform.dev/machine-type"  # machine type that a node simulates
SANDBOX_DRIVER_ANNOTATION: Final = "sandbox.gpu-platform.dev/driver-version"  # driver version of a new node
SANDBOX_RUNNING_DRIVER_ANNOTATION: Final = (
    "sandbox.gpu-platform.dev/running-driver"  # version of the loaded driver; the simulated operator sets it
)
SANDBOX_TOPOLOGY_SCOPE_ANNOTATION: Final = (
    "sandbox.gpu-platform.dev/topology-scope"  # Topology Manager scope of a node: "pod", else "container"
)
SANDBOX_OPERANDS_ANNOTATION: Final = (
    "sandbox.gpu-platform.dev/operands"  # operator release whose operands are simulated on a node
)
SANDBOX_STARTING_TAINT: Final = "sandbox.gpu-platform.dev/starting"  # taint of new Karpenter nodes
SANDBOX_FAULTS_CONFIG_MAP: Final = "gpu-faults"  # contains each node's faults as a JSON list
SANDBOX_NAMESPACE: Final = "sandbox-system"
# Annotations for the simulator: how long a pod's containers run, and how the first container terminates.
SANDBOX_RUN_SECONDS_ANNOTATION: Final = "sandbox.gpu-platform.dev/run-seconds"
SANDBOX_EXIT_CODE_ANNOTATION: Final = "sandbox.gpu-platform.dev/exit-code"
SANDBOX_EXIT_REASON_ANNOTATION: Final = "sandbox.gpu-platform.dev/exit-reason"
KWOK_NODE_ANNOTATION: Final = "kwok.x-k8s.io/node"  # "fake" if KWOK simulates the node's kubelet

# -- Kubernetes -------------------------------------------------------------------------------------------
INSTANCE_TYPE_LABEL: Final = "node.kubernetes.io/instance-type"
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
OS_LABELS: Final = {"kubernetes.io/os": "linux"}  # labels of every node

# -- NVIDIA -----------------------------------------------------------------------------------------------
NVIDIA_PREFIX: Final = "nvidia.com/"  # prefix of resources and labels
GPU_RESOURCE: Final = "nvidia.com/gpu"
SHARED_GPU_RESOURCE: Final = "nvidia.com/gpu.shared"
SHARED_SUFFIX: Final = ".shared"  # suffix that the device plugin appends to the names of shared resources
MIG_RESOURCE_PREFIX: Final = "nvidia.com/mig-"
GPU_RESOURCES: Final = "nvidia[.]com/([pv]?gpu|mig-|[A-Z]).*"
"""Pattern for Python, RE2 and CEL that matches the resource names of GPUs, GPU shares and MIG instances.

Names in capitals, and `pgpu`, are whole GPUs and vGPUs for virtual machines (NVIDIA/kubevirt-gpu-device-plugin).
NVIDIA's Network Operator uses the same prefix for NICs, with names that the operator's owner chooses, such as
hostdev or rdma_shared_device_a (docs.nvidia.com/networking, Network Operator, quick start). Read 2026-11-29.
"""
GPU_TAINT_KEY: Final = "nvidia.com/gpu"
GPU_TAINT_VALUE: Final = "present"
GPU_PRESENT_LABEL: Final = "nvidia.com/gpu.present"
GPU_PRODUCT_LABEL: Final = "nvidia.com/gpu.product"
GPU_COUNT_LABEL: Final = "nvidia.com/gpu.count"
GPU_MEMORY_LABEL: Final = "nvidia.com/gpu.memory"
DRIVER_UPGRADE_STATE_LABEL: Final = "nvidia.com/gpu-driver-upgrade-state"
DRIVER_UPGRADE_SKIP_LABEL: Final = "nvidia.com/gpu-driver-upgrade.skip"  # "true" if upgrades skip a node
DRIVER_VERSION_LABEL: Final = "nvidia.com/cuda.driver-version.full"
GPU_REPLICAS_LABEL: Final = "nvidia.com/gpu.replicas"
GPU_SHARING_STRATEGY_LABEL: Final = "nvidia.com/gpu.sharing-strategy"
DEVICE_PLUGIN_CONFIG_LABEL: Final = "nvidia.com/device-plugin.config"
DEPLOY_DRIVER_LABEL: Final = "nvidia.com/gpu.deploy.driver"  # "pre-installed" if the host has a driver
DEPLOY_DEVICE_PLUGIN_LABEL: Final = "nvidia.com/gpu.deploy.device-plugin"
DEPLOY_CLIENT_LABEL: Final = "nvidia.com/gpu.deploy.client"  # "true" on GPU nodes, unless their driver is changing
DEPLOY_OPERANDS_LABEL: Final = "nvidia.com/gpu.deploy.operands"  # "false" keeps every operand off a node
MIG_CONFIG_LABEL: Final = "nvidia.com/mig.config"
MIG_ALL_DISABLED: Final = "all-disabled"  # mig-parted config that disables MIG
MIG_STATE_LABEL: Final = "nvidia.com/mig.config.state"
MIG_MANAGER_APP: Final = "nvidia-mig-manager"  # value of the label `app` on the MIG manager's pods
MIG_CAPABLE_LABEL: Final = "nvidia.com/mig.capable"
MIG_STRATEGY_LABEL: Final = "nvidia.com/mig.strategy"

GPU_CLIQUE_LABEL: Final = "nvidia.com/gpu.clique"  # NVLink domain of a node
EFA_RESOURCE: Final = "vpc.amazonaws.com/efa"  # resource of the EFA device plugin
INFINIBAND_RESOURCE: Final = "rdma/ib"  # resource of the SR-IOV network device plugin on AKS
NIC_RESOURCES: Final = (
    EFA_RESOURCE,
    INFINIBAND_RESOURCE,
)  # resources of NICs for traffic between GPUs of different nodes
INFINIBAND_LABEL: Final = "gpu-platform.dev/infiniband"  # "true" on nodes whose pods use InfiniBand
EFA_DRIVER_LABEL: Final = "gpu-platform.dev/efa-driver"  # label of nodes on which pods claim EFA interfaces
OPERATOR_CHART: Final = "gpu-operator"  # the catalogue lists this chart's versions as operator releases
DRA_DRIVER_CHART: Final = "dra-driver-nvidia-gpu"  # name of the chart and of the namespace that it is installed in
DRA_DRIVER: Final = "gpu.nvidia.com"
GPU_CLUSTER: Final = "gpu-cluster"  # name of the only GPUCluster object; the CRD allows no other name
GPU_DEVICE_CLASS: Final = "gpu.nvidia.com"
DOMAIN_DAEMON_CLASS: Final = "compute-domain-daemon.nvidia.com"
"""Device class that only the DRA driver's daemons of ComputeDomains claim."""
MIG_DEVICE_CLASS: Final = "mig.nvidia.com"
DRIVERS_DEVICE_CLASSES: Final = (GPU_DEVICE_CLASS, MIG_DEVICE_CLASS, "vfio.gpu.nvidia.com")
DRIVER_DOMAINS: Final = (*RESERVED_DOMAINS, "k8s.aws", "google.com")  # domains in device class names
NVLINK_CHANNEL_CLASS: Final = (
    "compute-domain-default-channel.nvidia.com"  # device class for pods in a ComputeDomain
)
DEVICE_QUOTA_SUFFIX: Final = ".deviceclass.resource.k8s.io/devices"
ADMIN_ACCESS_LABEL: Final = (
    "resource.kubernetes.io/admin-access"  # label of namespaces in which claims may have admin access
)

# -- GKE --------------------------------------------------------------------------------------------------
GKE_ACCELERATOR_LABEL: Final = "cloud.google.com/gke-accelerator"
GKE_PARTITION_SIZE_LABEL: Final = "cloud.google.com/gke-gpu-partition-size"
GKE_SHARING_STRATEGY_LABEL: Final = "cloud.google.com/gke-gpu-sharing-strategy"
GKE_SHARED_CLIENTS_LABEL: Final = "cloud.google.com/gke-max-shared-clients-per-gpu"


def is_platform_namespace(namespace: str) -> bool:
    """Return whether a namespace belongs to Kubernetes or to the program. Other namespaces of Helm charts are in
    the catalogue.
    """
    own = (OPERATOR_NAMESPACE, DRA_DRIVER_CHART, SANDBOX_NAMESPACE)
    return namespace.startswith(("kube-", "gpu-platform-")) or namespace in own


def is_gpu_resource(name: str) -> bool:
    """Return whether an extended resource is a GPU, a GPU share, or a MIG instance."""
    return re.fullmatch(GPU_RESOURCES, name) is not None


def quota_key(resource: str) -> str:
    """Return the ResourceQuota key of an extended resource or, if the name has no slash, of a device class."""
    return f"requests.{resource}" if "/" in resource else resource + DEVICE_QUOTA_SUFFIX


def mig_resource(profile: str) -> str:
    """Return the extended resource of a MIG profile under the `mixed` strategy.

    The device plugin replaces `+` with `.`: `1g.10gb+me` becomes `nvidia.com/mig-1g.10gb.me`.
    """
    return MIG_RESOURCE_PREFIX + profile.replace("+", ".")
