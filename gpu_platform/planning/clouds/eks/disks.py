"""Plan the EBS volumes of EKS nodes. All volumes are encrypted.

Sources: EC2 and EBS user guides (gp3: 3000 IOPS and 125 MiB/s are included, up to 0.25 MiB/s per IOPS; io2 needs
IOPS); Karpenter's default volumes of Bottlerocket; read 2026-11-21.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpu_platform.catalog.models import MachineType, NodeImage
from gpu_platform.planning.clouds.eks.arns import check_key
from gpu_platform.planning.clouds.eks.launch_plan import BlockDevice
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import EksCluster
from gpu_platform.stack.pool import Pool

OS_DEVICE = "/dev/xvda"
OS_DISK_GIB = 4
"""Size of Bottlerocket's operating system volume, which is separate from its data volume."""

IO2_IOPS = 3000
IMAGE_THROUGHPUT_MIBPS = 500
PARALLEL_THROUGHPUT_MIBPS = 750
"""Throughput with `fast_pull`, which needs at least 600 MiB/s (amazon-eks-ami, nodeadm/doc/examples.md).

A higher value would need paid IOPS.
"""


def block_devices(pool: Pool, image: NodeImage, on_nvme: bool) -> tuple[BlockDevice, ...]:
    """Return the volumes of a node. `on_nvme` means that images and pod data are on local NVMe disks.

    GPU images are 10 GB or larger. Therefore, gp3 volumes that store images have more than the included
    throughput.
    """
    kind = pool.disk.type or "gp3"
    data = BlockDevice(
        device_name=image.data_device or OS_DEVICE,
        size_gib=pool.disk.size_gb,
        volume_type=kind,
        iops=IO2_IOPS if kind == "io2" else None,
        throughput_mibps=_throughput(pool, on_nvme) if kind == "gp3" else None,
        kms_key=pool.disk.kms_key,
        snapshot=pool.image.cache,
    )
    if data.device_name == OS_DEVICE:
        return (data,)
    system = BlockDevice(
        device_name=OS_DEVICE,
        size_gib=OS_DISK_GIB,
        volume_type="gp3",
        iops=None,
        throughput_mibps=None,
        kms_key=pool.disk.kms_key,
    )
    return (system, data)


def data_volume_gib(pool: Pool, machine: MachineType) -> int:
    """Return the size in GiB of the file system for images and pod data. The file system is on local NVMe disks or
    on the data volume.
    """
    if pool.local_nvme and machine.local_nvme_gb > 0:
        return machine.local_nvme_gb * 10**9 // 2**30
    return pool.disk.size_gb


def _throughput(pool: Pool, on_nvme: bool) -> int | None:
    """Return the throughput of a gp3 volume that stores images, or None to keep the included throughput."""
    if pool.image.fast_pull:
        # Karpenter does not bind the directory of SOCI to Bottlerocket's local disks.
        elsewhere = pool.provisioner == "karpenter" and pool.image.family == "bottlerocket"
        return None if on_nvme and not elsewhere else PARALLEL_THROUGHPUT_MIBPS
    return None if on_nvme else IMAGE_THROUGHPUT_MIBPS


def check_disk(pool: Pool, cluster: EksCluster, problems: Problems) -> None:
    """Record a problem for a KMS key that EBS cannot use."""
    check_key(pool.disk.kms_key, cluster, problems.at("disk").at("kms_key"), alias=True)


def disk_key(pool: Pool, admitted: str) -> Iterator[tuple[str, str, str]]:
    """Yield the label, value and reason of the choice of a disk key. The reason states what the key's policy must
    allow.

    `admitted` is the role that starts the instances.
    """
    if pool.disk.kms_key is not None:
        yield (
            "disk key",
            pool.disk.kms_key,
            f"the stack file sets the key; the key's policy must allow its use by {admitted}, or no node starts",
        )
