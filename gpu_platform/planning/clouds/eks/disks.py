"""Plan the EBS volumes of EKS nodes; all of them are encrypted.

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
"""What Bottlerocket keeps beside its data disk."""

IO2_IOPS = 3000
IMAGE_THROUGHPUT_MIBPS = 500
PARALLEL_THROUGHPUT_MIBPS = 750
"""With `fast_pull`: 600 at least (amazon-eks-ami, nodeadm/doc/examples.md); more needs paid IOPS."""


def block_devices(pool: Pool, image: NodeImage, on_nvme: bool) -> tuple[BlockDevice, ...]:
    """Return the volumes of a node; `on_nvme`: images and pods' data lie on the machine's own disks.

    GPU images have 10 GB and more: gp3 volumes that images are pulled to get more than the included throughput.
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
    """Return the size of the file system of images and pods' data: the machine's own disks, or the volume."""
    if pool.local_nvme and machine.local_nvme_gb > 0:
        return machine.local_nvme_gb * 10**9 // 2**30
    return pool.disk.size_gb


def _throughput(pool: Pool, on_nvme: bool) -> int | None:
    """Return the throughput of a gp3 volume that images are pulled to; None: they are not, the included one."""
    if pool.image.fast_pull:
        # Karpenter binds no directory of SOCI to the local disks of Bottlerocket.
        elsewhere = pool.provisioner == "karpenter" and pool.image.family == "bottlerocket"
        return None if on_nvme and not elsewhere else PARALLEL_THROUGHPUT_MIBPS
    return None if on_nvme else IMAGE_THROUGHPUT_MIBPS


def check_disk(pool: Pool, cluster: EksCluster, problems: Problems) -> None:
    """Record a key that EBS cannot use."""
    check_key(pool.disk.kms_key, cluster, problems.at("disk").at("kms_key"), alias=True)


def disk_key(pool: Pool, admitted: str) -> Iterator[tuple[str, str, str]]:
    """Yield what the policy of the key of a pool's disks must do; `admitted`: who starts the instances."""
    if pool.disk.kms_key is not None:
        yield (
            "disk key",
            pool.disk.kms_key,
            f"the stack file sets it; its policy must admit {admitted}, or no node starts",
        )
