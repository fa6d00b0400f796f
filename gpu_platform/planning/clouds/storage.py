"""Types of the plan of storage classes and volumes of teams, with the resources of the cloud that they need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from gpu_platform.base.quantity import parse_quantity
from gpu_platform.planning.clouds.section import ClusterSetting
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.storage import DiskStorage, ExistingStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageClassPlan:
    """A StorageClass.

    `parameters`: those that are known before a deploy; the cloud's component adds others, such as ids.
    `binding`: with WaitForFirstConsumer a volume is made in the zone of its first pod.
    """

    name: str
    provisioner: str
    parameters: Mapping[str, str]
    reclaim_policy: Literal["Delete", "Retain"]
    binding: Literal["Immediate", "WaitForFirstConsumer"]
    expandable: bool
    default: bool = False
    shared: bool = False
    """Whether its volumes are file systems that the pods of many nodes share, behind access that the stack has."""
    zones: tuple[str, ...] = ()
    """Zones of its volumes; empty: any."""
    smallest: str = ""
    """The smallest volume that the cloud makes, and bills; empty: as claimed."""
    unable: tuple[str, ...] = ()
    """Pools whose nodes cannot mount its volumes, as far as is known."""
    topology_key: str = ""
    """Label of nodes that names the zone, by the driver; empty without zones."""


NFS: Final = "nfs"


@dataclass(frozen=True, slots=True)
class MountProblem:
    """Why nodes cannot mount volumes of a class. `field`: of the class, with a value that helps; empty: none."""

    why: str
    field: str = ""


@dataclass(frozen=True, slots=True)
class ClaimSizes:
    """The sizes of volumes that a cloud makes: the smallest one, and multiples of a step. Empty: any."""

    smallest: str = ""
    step: str = ""

    def next_size(self, claimed: str) -> str:
        """Return the size of the volume that the cloud makes for a claim, `claimed` if it makes that size."""
        size = parse_quantity(claimed)
        if self.smallest and size <= (smallest := parse_quantity(self.smallest)):
            return claimed if size == smallest else self.smallest
        if not self.step or size % (step := parse_quantity(self.step)) == 0:
            return claimed
        return f"{(size // step + 1) * step / 1024**3:f}Gi"


@dataclass(frozen=True, slots=True)
class VolumeSidecar:
    """A container that admission adds to pods with these annotations.

    `cpu`, `memory`: what it requests; `settings`: annotations that pods need beside them.
    """

    name: str
    annotations: Mapping[str, str]
    cpu: str
    memory: str
    settings: Mapping[str, str]

    @property
    def pod_annotations(self) -> Mapping[str, str]:
        """All annotations of a pod that mounts its volumes."""
        return {**self.annotations, **self.settings}


def read_only_options(one: ExistingStorage) -> tuple[str, ...]:
    """Return the mount option that forbids to write to a file system, whatever a pod says about its claim.

    Source: Kubernetes v1.36.3, pkg/volume/csi/csi_util.go and pkg/volume/nfs/nfs.go: `readOnly` of the pod's claim
    counts, that of the PersistentVolume does not; read 2026-11-29.
    """
    return ("ro",) if one.read_only else ()


def volume_name(namespace: str, name: str) -> str:
    """Return the name of the PersistentVolume of a claim."""
    return f"{namespace}-{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumePlan:
    """A PersistentVolume of what exists already, for the claim of one team: nobody else's claim can take it.

    `name`: of the claim, and in `storage` of the stack file; `namespace`: of the team; `attributes`: of the CSI
    volume.
    """

    name: str
    namespace: str
    source: str
    """What is mounted, for people: s3://acme-datasets/imagenet/."""
    driver: str
    """Of CSI; `NFS`: the kubelet mounts it."""
    handle: str
    """Of the CSI volume, or address and path of an export of NFS."""
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])
    mount_options: tuple[str, ...] = ()
    read_only: bool
    """Whether pods may only read, by mount options or permissions: the kubelet ignores `readOnly` of a volume."""
    knows_read_only: bool = True
    """Whether its driver takes volumes with the access mode ReadOnlyMany."""
    renames: bool = True
    """Whether files can be renamed, as libraries do that write a temporary file first."""
    sidecar: VolumeSidecar | None = None
    """What reads and writes it in the pod itself; None: the node mounts it."""
    unable: tuple[str, ...] = ()
    """Pools whose nodes cannot mount it, as far as is known."""

    @property
    def in_pod(self) -> bool:
        """Whether requests for its data leave by the pod's network."""
        return self.sidecar is not None

    @property
    def access_mode(self) -> str:
        """Access mode of volume and claim, by which nobody forbids to write."""
        return "ReadOnlyMany" if self.read_only and self.knows_read_only else "ReadWriteMany"

    @property
    def volume(self) -> str:
        """Name of the PersistentVolume."""
        return volume_name(self.namespace, self.name)


class CloudStorage(Protocol):
    """Resources of a cloud that storage classes need: drivers, file systems, access to them."""

    @property
    def kind(self) -> str:
        """The provider; `components.<kind>` transcribes the plan."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoragePlan:
    """The storage classes of an environment, and the volumes of its teams.

    `team_stack_volumes`: of teams with a stack of their own, which creates them: their namespaces are its, too;
    `retained`: what `destroy` does not delete, as text.
    """

    classes: tuple[StorageClassPlan, ...] = ()
    volumes: tuple[VolumePlan, ...] = ()
    team_stack_volumes: tuple[VolumePlan, ...] = ()
    cloud: CloudStorage | None = None
    retained: tuple[str, ...] = ()
    created: tuple[str, ...] = ()
    """File systems that the program creates, as text that has what cannot change: another key is another one."""
    settings: tuple[ClusterSetting, ...] = ()
    """What else of its file systems a preview compares with the last deployment."""


def check_iops(one: DiskStorage, disk: str, limits: tuple[int, int], here: Problems) -> None:
    """Record IOPS that no volume of a disk type has: its claims would wait. `limits`: the fewest and the most."""
    least, most = limits
    if one.iops is not None and not least <= one.iops <= most:
        here.at("iops").add(
            str(one.iops),
            f"{least} to {most}: a {disk} volume has {least} by itself, and takes no more than {most}",
            "remove iops" if one.iops < least else f"write iops: {most} or less",
        )
