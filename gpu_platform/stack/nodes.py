"""Stack file fields for the nodes of a cloud pool: image, network, disks, upgrades; all have defaults."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpu_platform.stack._types import Quantity, SpecModel
from gpu_platform.stack.declared import ON_CLOUDS, On, SetsProperties
from gpu_platform.stack.keys import Key
from gpu_platform.stack.patterns import worded

ImageFamily = Literal["al2023", "bottlerocket", "cos", "ubuntu"]


_OWN_IMAGE = On(("eks",), "GKE nodes run Google's images, and the driver is installed on them afterwards")


class Image(SpecModel):
    """Node image of a pool in the stack file."""

    family: Annotated[
        ImageFamily | None,
        On(("eks",), "GKE has images of its own", values=("al2023", "bottlerocket")),
        On(("gke",), "EKS has images of its own", values=("cos", "ubuntu")),
        SetsProperties(
            eks=("ami_type",), karpenter=("node_class",), gke=("image_type", "shielded_instance_config")
        ),
    ] = None
    """EKS has al2023 and bottlerocket; GKE has cos and ubuntu. Unset: al2023 on EKS, cos on GKE."""
    ami: Annotated[
        str | None, _OWN_IMAGE, SetsProperties(eks=("ami_type", "image_id"), karpenter=("node_class",))
    ] = Field(default=None, pattern=r"^ami-[0-9a-f]{8,17}$", examples=["ami-0a1b2c3d4e5f60718"])
    """EKS: a custom AMI, based on that family."""
    release: Annotated[
        str | None,
        ON_CLOUDS,
        SetsProperties(eks=("release_version",), karpenter=("node_class",), gke=("version",)),
    ] = Field(
        default=None,
        pattern=r"^v?\d[0-9a-z.-]+$",
        examples=["1.36.2-20260818", "v20260818", "1.35.1-gke.1396000"],
    )
    """Release of the node image; another one rolls the nodes, which is how they are patched. EKS: of the family's
    image, such as 1.36.2-20260818 (AL2023) or 1.64.0-2f4c3a1b (Bottlerocket), with Karpenter also v20260818 or
    v1.64.0. A managed node group gets the newest one when it is created without `release`, and in each roll that
    does not change `release`. Unset with Karpenter: the release in the catalogue. GKE: version of the nodes, such
    as 1.35.1-gke.1396000, which they keep until it is out of support; unset: that of the cluster when they are
    created, and GKE's upgrades after that."""
    fast_pull: Annotated[
        bool,
        ON_CLOUDS,
        SetsProperties(
            eks=("user_data", "block_device_mappings"), karpenter=("node_class",), gke=("gcfs_config",)
        ),
    ] = False
    """Start pods of large container images sooner. EKS: layers are fetched and unpacked in parallel (SOCI), which
    needs CPU and memory of the node and a disk of 600 MiB/s or more: gp3 volumes get 750. GKE: image streaming, a
    pod starts while its image is fetched; only of images in Artifact Registry. Unset: no, because AWS calls it
    experimental, and on GKE it needs another API and role."""
    cache: Annotated[
        str | None,
        ON_CLOUDS,
        SetsProperties(eks=("block_device_mappings",), karpenter=("node_class",), gke=("secondary_boot_disks",)),
    ] = Field(
        default=None,
        pattern=worded(
            r"^(snap-[0-9a-f]{8,17}|projects/[a-z][a-z0-9:.-]*/global/images/[a-z][a-z0-9-]{0,62})$",
            "the id of a snapshot, or projects/PROJECT/global/images/NAME with a name of up to 63 characters",
        ),
        examples=["snap-0a1b2c3d4e5f60718", "projects/my-project/global/images/torch-2-9"],
    )
    """Container images that a new node has from the beginning. EKS: snapshot of the data volume of a Bottlerocket
    node that has pulled them; GKE: a disk image, made by gke-disk-image-builder, with fast_pull."""
    driver: Annotated[str | None, _OWN_IMAGE] = Field(
        default=None, pattern=r"^\d{3}(\.\d+)*$", examples=["595.91.07"]
    )
    """EKS, with `ami` or `release`: version of the NVIDIA driver in the image, or its branch; unset: the driver
    branch of the family's own image."""


class Network(SpecModel):
    """Network interfaces for GPU traffic between the nodes of a pool, in addition to the pod network."""

    rdma: bool | None = None
    """Attach EFA or GPUDirect interfaces; unset: yes for training pools of machine types that have them."""
    layout: Annotated[
        Literal["ena-and-efa", "efa-primary"] | None, On(("eks",), "it orders EFA interfaces, which EC2 has")
    ] = None
    """EKS: `ena-and-efa` has a primary interface without EFA; `efa-primary` needs one interface less; not with
    Karpenter. Unset: ena-and-efa if the machine type supports it."""
    via: Annotated[
        Literal["networks", "profile", "device-plugin", "dranet"] | None,
        On(("gke",), "EC2 instances have EFA interfaces instead", values=("networks", "profile")),
        On(("eks",), "they give pods EFA interfaces, which EC2 has", values=("device-plugin", "dranet")),
    ] = None
    """How pods get the interfaces. EKS: `device-plugin`: they request vpc.amazonaws.com/efa; `dranet`: they claim
    devices of the class efa.networking.k8s.aws. Unset: device-plugin. GKE: `networks`: additional VPCs with a
    Network object each; `profile`: the accelerator network profile, and claims of the class mrdma.google.com,
    from A3 Ultra on. Unset: networks for A3 High and Mega, profile for newer types."""


class Disk(SpecModel):
    """Boot disk of a node; always encrypted."""

    size_gb: int = Field(default=200, ge=20, le=16384)
    type: Annotated[
        Literal["gp3", "io2", "pd-balanced", "pd-ssd", "hyperdisk-balanced"] | None,
        On(("eks",), "it is a type of EBS volumes", values=("gp3", "io2")),
        On(
            ("gke",),
            "it is a type of Google Cloud's disks",
            values=("pd-balanced", "pd-ssd", "hyperdisk-balanced"),
        ),
    ] = None
    """Unset: gp3 on EKS; on GKE pd-balanced, or hyperdisk-balanced if the machine type supports no other."""
    kms_key: Annotated[Key | None, SetsProperties(gke=("boot_disk_kms_key",))] = None
    """Customer-managed key (ARN of it or an alias, or name of a Cloud KMS key); unset: the cloud's default key."""


_SYSCTL = worded(r"^[a-z0-9_-]+(\.[A-Za-z0-9_-]+)+$", "the name of a kernel parameter such as vm.swappiness")
SysctlName = Annotated[str, Field(pattern=_SYSCTL, max_length=128)]
SysctlValue = (
    Annotated[
        str,
        Field(
            pattern=worded(r"^[\w.:/ -]{1,200}$", "a value of up to 200 letters, digits, spaces and _ . : / -"),
            examples=["4096 87380"],
        ),
    ]
    | int
)


class Tuning(SpecModel):
    """Kernel settings that a pool's nodes have from their first boot on; without it those of their image."""

    intent: Literal["training", "inference"] | None = None
    """What NVIDIA's tuned profiles set for this purpose, as far as images of the clouds take it."""
    sysctls: Annotated[dict[SysctlName, SysctlValue], Field(max_length=50)] = Field(
        default=dict[SysctlName, SysctlValue](), examples=[{"vm.max_map_count": 1048576}]
    )
    """Kernel parameters by name, in addition to those of `intent` and instead of equal ones. GKE takes a list of
    names alone."""
    huge_pages: int | None = Field(default=None, ge=1, le=524288)
    """Huge pages of 2 MiB that a node sets aside at boot, for pods that request `hugepages-2Mi`; no other pod can
    use this memory. Not with EFA, whose images reserve theirs, nor with Karpenter."""


class Upgrade(SpecModel):
    """Strategy for replacing the nodes of a pool during an upgrade."""

    strategy: Annotated[
        Literal["surge", "blue-green"],
        On(("gke",), "EKS replaces the nodes of a node group some at a time", values=("blue-green",)),
    ] = "surge"
    max_surge: Annotated[
        int | None,
        On(
            ("gke",),
            "EKS starts as many extra nodes as may be unavailable at once, and none for reserved capacity",
            fix="write max_unavailable instead",
        ),
    ] = Field(default=None, ge=0, le=100)
    """Additional nodes during an upgrade; unset: 0 for reserved capacity or a placement policy, else 1. Not on
    EKS, which sets this itself, nor for flex-start nodes, which are not upgraded."""
    max_unavailable: int | None = Field(default=None, ge=0, le=100)
    """Nodes that may be unavailable at the same time; unset: 1 without surge."""


class Karpenter(SpecModel):
    """EKS: settings of a pool whose nodes Karpenter creates for pending pods and removes when they are unused."""

    alternatives: Annotated[tuple[str, ...], SetsProperties(karpenter=("requirements",))] = ()
    """The former place of `capacity.alternatives`, which managed node groups have, too; not both. On a CPU pool
    without GPUs, with at least the vCPUs and memory of the pool's own."""
    consolidate_after: str | None = Field(default=None, pattern=r"^(Never|(\d+(s|m|h))+)$", examples=["10m"])
    """How long Karpenter keeps an unused or underused node; unset: depends on the workload."""
    expire_after: Annotated[str | None, SetsProperties(karpenter=("template",))] = Field(
        default=None, pattern=r"^(Never|(0+[smh])*0*[1-9]\d*[smh](\d+[smh])*)$", examples=["336h"]
    )
    """Age at which a node is replaced; unset: depends on the workload."""
    limits: Annotated[dict[Literal["cpu", "memory"], Quantity], Field(min_length=1)] | None = None
    """CPU and memory of all nodes of the pool together: at least those of `count.max` nodes of `machine_type`, at
    most those of as many nodes of the largest alternative. Limits of nodes and GPUs are computed from `count`."""
