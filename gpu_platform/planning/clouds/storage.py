"""Types for planned storage classes and team volumes, and for the cloud resources that they need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from gpu_platform.base.quantity import parse_quantity
from gpu_platform.planning.clouds.section import ClusterSetting
from gpu_platform.planning.json_form import NOT_IN_JSON
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.storage import DiskStorage, ExistingStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageClassPlan:
    """A planned StorageClass.

    `parameters` contains the parameters that are known before a deployment. The cloud's component adds others,
    such as ids. If `binding` is WaitForFirstConsumer, a volume is created in the zone of its first pod.
    """

    name: str
    provisioner: str
    parameters: Mapping[str, str]
    reclaim_policy: Literal["Delete", "Retain"]
    binding: Literal["Immediate", "WaitForFirstConsumer"]
    expandable: bool
    default: bool = False
    shared: bool = False
    """Whether the volumes of the storage class are file systems that pods on many nodes share. The stack manages
    the access rules of these file systems.
    """
    zones: tuple[str, ...] = ()
    """Zones of the storage class's volumes. An empty tuple means any zone."""
    smallest: str = ""
    """Smallest volume that the cloud creates and bills. If empty, volumes have the claimed size."""
    unable: tuple[str, ...] = ()
    """Pools with nodes that are known to be unable to mount the storage class's volumes."""
    topology_key: str = ""
    """Node label in which the driver finds the zone, or empty if the storage class has no zones."""


NFS: Final = "nfs"


@dataclass(frozen=True, slots=True)
class MountProblem:
    """Why nodes cannot mount the volumes of a storage class.

    `field` is a field of the storage class, with a value that solves the problem. It is empty if no value of a
    field solves the problem.
    """

    why: str
    field: str = ""


@dataclass(frozen=True, slots=True)
class ClaimSizes:
    """The smallest volume that a cloud creates, and the increment for the sizes of larger volumes.

    Empty fields mean that there is no restriction.
    """

    smallest: str = ""
    step: str = ""

    def next_size(self, claimed: str) -> str:
        """Return the size of the volume that the cloud creates for a claim of the size `claimed`."""
        size = parse_quantity(claimed)
        if self.smallest and size <= (smallest := parse_quantity(self.smallest)):
            return claimed if size == smallest else self.smallest
        if not self.step or size % (step := parse_quantity(self.step)) == 0:
            return claimed
        return f"{(size // step + 1) * step / 1024**3:f}Gi"


@dataclass(frozen=True, slots=True)
class VolumeSidecar:
    """A container that an admission webhook adds to pods with the annotations in `annotations`.

    `cpu` and `memory` are the container's requests. `settings` are additional annotations that the pods need.
    """

    name: str
    annotations: Mapping[str, str]
    cpu: str
    memory: str
    settings: Mapping[str, str]

    @property
    def pod_annotations(self) -> Mapping[str, str]:
        """All annotations that a pod needs to mount volumes through the sidecar."""
        return {**self.annotations, **self.settings}


def read_only_options(one: ExistingStorage) -> tuple[str, ...]:
    """Return the mount option that makes a file system read-only, whatever the pod sets for its claim.

    The kubelet uses the `readOnly` of the pod's claim, and ignores the `readOnly` of the PersistentVolume. Source:
    Kubernetes v1.36.3, pkg/volume/csi/csi_util.go and pkg/volume/nfs/nfs.go; read 2026-11-29.
    """
    return ("ro",) if one.read_only else ()


def volume_name(namespace: str, name: str) -> str:
    """Return the name of the PersistentVolume for a claim."""
    return f"{namespace}-{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumePlan:
    """A PersistentVolume for existing storage.

    It is bound to the claim of one team, so that no other claim can use it.

    `name` is the name of the claim, and of the entry in the stack file's `storage`. `namespace` is the team's
    namespace. `attributes` are the attributes of the CSI volume.
    """

    name: str
    namespace: str
    source: str
    """The mounted storage in readable form, such as s3://acme-datasets/imagenet/."""
    driver: str
    """Name of the CSI driver, or `NFS` if the kubelet mounts the volume."""
    handle: str
    """Handle of the CSI volume, or address and path of an NFS export."""
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])
    mount_options: tuple[str, ...] = ()
    read_only: bool
    """Whether mount options or permissions restrict pods to reading.

    The kubelet ignores `readOnly` of a volume.
    """
    knows_read_only: bool = True
    """Whether the driver supports the access mode ReadOnlyMany."""
    renames: bool = True
    """Whether files can be renamed. Libraries that first write to a temporary file need renames."""
    sidecar: VolumeSidecar | None = None
    """Sidecar that mounts the volume in the pod itself, or None if the node mounts the volume."""
    unable: tuple[str, ...] = ()
    """Pools with nodes that are known to be unable to mount the volume."""

    @property
    def in_pod(self) -> bool:
        """Whether requests for the volume's data use the pod's network."""
        return self.sidecar is not None

    @property
    def access_mode(self) -> str:
        """Access mode of the volume and its claim. The mode does not prevent pods from writing."""
        return "ReadOnlyMany" if self.read_only and self.knows_read_only else "ReadWriteMany"

    @property
    def volume(self) -> str:
        """Name of the PersistentVolume."""
        return volume_name(self.namespace, self.name)


class CloudStorage(Protocol):
    """Cloud resources that storage classes need, such as drivers, file systems and access rules."""

    @property
    def kind(self) -> str:
        """Name of the provider. `components.<kind>` creates the resources of the plan."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoragePlan:
    """The storage classes of an environment, and the volumes of its teams.

    `team_stack_volumes` are the volumes of teams with a separate stack. A team's stack creates these volumes,
    because it also creates the team's namespace. `retained` lists the resources that `destroy` does not delete.
    """

    classes: tuple[StorageClassPlan, ...] = ()
    volumes: tuple[VolumePlan, ...] = ()
    team_stack_volumes: tuple[VolumePlan, ...] = ()
    cloud: CloudStorage | None = None
    retained: tuple[str, ...] = ()
    created: tuple[str, ...] = ()
    """File systems that the program creates, each identified by a string of its immutable settings.

    A different string means a different file system.
    """
    settings: tuple[ClusterSetting, ...] = ()
    """Further settings of the file systems. A preview compares them with the last deployment."""
    cloud_disks: Mapping[str, DiskStorage] = field(default_factory=dict[str, DiskStorage], metadata=NOT_IN_JSON)
    """Disk classes that are not declared in the stack file, because the cloud or the program creates them."""


def disk_keys(keys: tuple[str, ...]) -> ClusterSetting:
    """Return the customer-managed keys that the program allows a new cluster to use for volumes."""
    return ClusterSetting(
        name="disk_keys",
        what="keys of volumes",
        field="storage",
        values=keys,
        loss="cuts-access",
        on_loss="the cluster loses the right to use {lost}, so that disks encrypted with it can no longer be "
        "attached; keep the storage class until the last of them is deleted",
    )


def check_iops(one: DiskStorage, disk: str, limits: tuple[int, int], here: Problems) -> None:
    """Record a problem if a disk type does not support the IOPS, because claims would stay pending.

    `limits` are the minimum and the maximum.
    """
    least, most = limits
    if one.iops is not None and not least <= one.iops <= most:
        here.at("iops").add(
            str(one.iops),
            f"{least} to {most}: a {disk} volume has {least} by default, and supports at most {most}",
            "remove iops" if one.iops < least else f"write iops: {most} or less",
        )
