"""Plan the image, disks, accelerator, kubelet, labels and taints for the nodes of a GKE pool.

Sources: GKE docs on GPUs, GPU sharing, local SSD and node system configuration; terraform-provider-google,
node_config; cluster-toolkit 1.95 (gke-node-pool); read 2026-11-21.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from gpu_platform.base.quantity import parse_memory_mib
from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.planning.clouds.gke.network import DRA_NETWORKING_LABEL
from gpu_platform.planning.clouds.gke.plan import Accelerator, GkeKubelet, GkeTaint
from gpu_platform.planning.nodes.section import Kubelet, Taint
from gpu_platform.planning.nodes.software import NodeSoftware
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.requirements.kernel import check_kernel
from gpu_platform.stack.declared import takes
from gpu_platform.stack.nodes import Disk
from gpu_platform.stack.pool import FlexStart, Pool
from gpu_platform.stack.sharing import Mig, TimeSlicing

NO_DEVICE_PLUGIN_LABEL = "gke-no-default-nvidia-gpu-device-plugin"
"""Label that keeps GKE's device plugin and GKE's driver installation off a node (NVIDIA/aicr#2047)."""
QUEUED_KEY = "cloud.google.com/gke-queued"
"""Key of a taint that GKE adds to nodes with queued provisioning. The program sets a label with the same key,
because GKE sets only the taint (cluster-toolkit).
"""
LOCAL_SSD_GB = 375
"""Size in GB of a local SSD on most machine types. The catalogue contains the sizes for the other machine types.
"""
# Defaults and limit for container logs.
# Source: GKE API reference, NodeKubeletConfig, containerLogMaxSize; read 2026-11-29.
_LOG_SIZE_MIB = 10
_LOG_FILES = 5
_LOG_PART_OF_STORAGE = 100
_EFFECTS = {
    "NoSchedule": "NO_SCHEDULE",
    "PreferNoSchedule": "PREFER_NO_SCHEDULE",
    "NoExecute": "NO_EXECUTE",
}


def image_type(pool: Pool, machine: MachineType, catalog: Catalog) -> str:
    """Return the node image by its name in the GKE API."""
    return catalog.node_images["gcp", pool.image.family or "cos"].image_type(machine)


def disk_type(pool: Pool, machine: MachineType, catalog: Catalog) -> str:
    """Return the declared type of the boot disk, or the default of the machine family."""
    return pool.disk.type or catalog.gcp_family(machine).boot_disk_types[0]


def local_ssd_count(machine: MachineType) -> int:
    """Return the number of local SSDs of the machine. All of them provide ephemeral storage for pods."""
    return machine.local_nvme_gb // (machine.local_disk_gb or LOCAL_SSD_GB)


def secure_boot(pool: Pool, machine: MachineType) -> bool:
    """Return whether nodes load only signed kernel modules. Nodes without GPUs need no unsigned modules.

    Google signs the drivers that GKE and the installer install on Container-Optimized OS. cluster-toolkit keeps
    secure boot on for every GPU pool. On Ubuntu the driver's modules are built on the node and are unsigned
    (NVIDIA/gpu-operator#1726).
    """
    return pool.image.family != "ubuntu" or not machine.has_gpus


def accelerator(pool: Pool, machine: MachineType, software: NodeSoftware) -> Accelerator | None:
    """Return the accelerator of a node.

    GKE shares and partitions GPUs only on nodes with its own device plugin.
    """
    if not machine.has_gpus:
        return None
    assert machine.accelerator_label is not None  # noqa: S101 - a test checks it for every machine type of GCP
    sharing = pool.sharing if software.device_plugin == "cloud" else None
    return Accelerator(
        type=machine.accelerator_label,
        count=machine.gpu_count,
        # With DEFAULT, GKE installs the driver version that Google has tested with the node image.
        driver_version="DEFAULT" if software.driver == "cloud" else "INSTALLATION_DISABLED",
        sharing_strategy="TIME_SHARING" if isinstance(sharing, TimeSlicing) else None,
        max_shared_clients=sharing.replicas if isinstance(sharing, TimeSlicing) else None,
        partition_size=next(iter(sharing.layout or {}), None) if isinstance(sharing, Mig) else None,
    )


def kubelet_config(kubelet: Kubelet | None) -> GkeKubelet | None:
    """Return the kubelet settings, named as in the Google Cloud provider."""
    if kubelet is None:
        return None
    return GkeKubelet(
        cpu_manager_policy=kubelet.cpu_manager_policy,
        topology_policy=kubelet.topology_policy,
        topology_scope=kubelet.topology_scope,
        memory_policy="Static" if kubelet.memory_manager_policy == "Static" else None,
    )


def node_labels(
    pool: Pool, labels: Mapping[str, str], software: NodeSoftware, network: Literal["none", "networks", "profile"]
) -> Mapping[str, str]:
    """Return the initial labels of the nodes."""
    own: dict[str, str] = {}
    if software.device_plugin == "operator":
        own[NO_DEVICE_PLUGIN_LABEL] = "true"
    if network == "profile":
        own[DRA_NETWORKING_LABEL] = "true"
    if isinstance(pool.capacity, FlexStart) and pool.capacity.queued:
        own[QUEUED_KEY] = "true"
    return {**labels, **own}


def node_taints(taints: tuple[Taint, ...]) -> tuple[GkeTaint, ...]:
    """Return the taints in the format of the GKE API."""
    return tuple(GkeTaint(key=taint.key, value=taint.value, effect=_EFFECTS[taint.effect]) for taint in taints)


def added_taints(pool: Pool, machine: MachineType) -> Mapping[Taint, str]:
    """Return the taints that GKE adds to the pool's own taints, with the reason for each.

    Sources: GKE docs, flex-start with queued provisioning, and Arm workloads on GKE.
    """
    added: dict[Taint, str] = {}
    if isinstance(pool.capacity, FlexStart) and pool.capacity.queued:
        queued = Taint(key=QUEUED_KEY, value="true", effect="NoSchedule")
        added[queued] = (
            "GKE adds this taint to nodes with queued provisioning, so that only pods of a "
            "ProvisioningRequest run there"
        )
    if machine.arch == "arm64":
        arm = Taint(key="kubernetes.io/arch", value="arm64", effect="NoSchedule")
        added[arm] = "GKE adds this taint to Arm nodes, which cannot run images for other architectures"
    return added


def check_node(pool: Pool, machine: MachineType, catalog: Catalog, problems: Problems) -> None:
    """Record problems with disk, image, kernel and log settings that nodes of the machine type do not support."""
    _check_disk(pool, machine, catalog, problems.at("disk"))
    _check_image(pool, problems.at("image"))
    check_kernel(pool, machine, problems)
    _check_sysctls(pool, catalog, problems.at("tuning").at("sysctls"))
    _check_logs(pool, machine, problems.at("bootstrap").at("kubelet"))
    if not pool.local_nvme and machine.local_nvme_gb:
        problems.at("local_nvme").add(
            f"false on {machine.name}",
            f"true: the {local_ssd_count(machine)} local SSDs are part of the machine type and its price",
            "remove local_nvme",
        )


def _check_logs(pool: Pool, machine: MachineType, here: Problems) -> None:
    """Record a problem for container logs that may exceed GKE's limit, which is a fraction of the node's storage.

    The sizes of the local SSDs and the boot disk are added, because GKE does not document which of them determines
    the limit.
    """
    limits = pool.bootstrap.kubelet if pool.bootstrap is not None else None
    if limits is None:
        return
    declared, files = limits.container_log_max_size, limits.container_log_max_files or _LOG_FILES
    size = parse_memory_mib(declared) if declared is not None else _LOG_SIZE_MIB
    storage = pool.disk.size_gb + machine.local_nvme_gb
    most = storage * 1024 // _LOG_PART_OF_STORAGE
    if size * files <= most:
        return
    enough = -(-size * files * _LOG_PART_OF_STORAGE // 1024) - machine.local_nvme_gb
    larger = f"write disk: {{size_gb: {enough}}}"
    smaller = f"write container_log_max_size: {most // files}Mi, or "
    here.at("container_log_max_size" if declared is not None else "container_log_max_files").add(
        f"{size}Mi for each of {files} files, {size * files}Mi for the logs of a container",
        f"at most {most}Mi: 1 % of the {storage} GB of node storage, according to GKE's API",
        (smaller if most // files >= _LOG_SIZE_MIB else "") + larger,
    )


def _check_sysctls(pool: Pool, catalog: Catalog, here: Problems) -> None:
    """Record a problem for kernel parameters that GKE does not allow to be set."""
    settable = catalog.settable_sysctls["gke"].sysctls
    for name in pool.tuning.sysctls if pool.tuning is not None else ():
        if name not in settable:
            here.at(name).add(f"{name!r}", "on GKE, one of " + ", ".join(settable), "remove it")


def _check_image(pool: Pool, here: Problems) -> None:
    """Record problems if image streaming is on but its requirements are not met, and if an image cache is not a
    disk image.

    Source: GKE docs, Image streaming and secondary boot disks; read 2026-11-23.
    """
    image = pool.image
    if image.fast_pull and image.family == "ubuntu":
        here.at("fast_pull").add(
            "true with family ubuntu",
            "cos; only Container-Optimized OS supports image streaming",
            "remove family or fast_pull",
        )
    if image.cache is None:
        return
    if image.cache.startswith("snap-"):
        here.at("cache").add(f"{image.cache!r}", "a disk image", "write cache: projects/P/global/images/NAME")
    if not image.fast_pull:
        here.at("cache").add(
            "a disk image without fast_pull",
            "fast_pull: true together with cache, because nodes read a secondary boot disk through image "
            "streaming",
            "write fast_pull: true",
        )


def _check_disk(pool: Pool, machine: MachineType, catalog: Catalog, here: Problems) -> None:
    family = catalog.gcp_family(machine)
    wanted = pool.disk.type
    if takes(Disk, "type", wanted, "gke") and wanted not in (None, *family.boot_disk_types):
        here.at("type").add(f"{wanted!r} on {machine.name}", " or ".join(family.boot_disk_types), "remove type")
