"""Stack file fields for the nodes of a cloud pool: image, network, disks, upgrades. All fields have defaults."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpu_platform.catalog.models import ImageFamily
from gpu_platform.stack._types import Quantity, SpecModel
from gpu_platform.stack.declared import Examples, On, SetsProperties
from gpu_platform.stack.keys import Key
from gpu_platform.stack.patterns import worded

_OWN_IMAGE = On(
    ("eks",), "GKE and AKS nodes run the cloud's images, and the driver is installed on them afterwards"
)
_NO_RELEASE = On(
    ("eks", "gke"),
    "a new node pool of AKS always has the newest node image",
    fix="remove release; az aks nodepool upgrade --node-image-only renews the images of a pool",
)
_NO_IMAGE_CACHE = On(("eks", "gke"), "the program does not set up artifact streaming on AKS")


class Image(SpecModel):
    """Node image of a pool in the stack file."""

    family: Annotated[
        ImageFamily | None,
        On(("eks",), "GKE and AKS have different image families", values=("al2023", "bottlerocket")),
        On(("gke",), "EKS and AKS have different image families", values=("cos", "ubuntu")),
        On(
            ("aks",),
            "EKS and GKE have different image families",
            values=("ubuntu2204", "ubuntu2404", "azurelinux3"),
        ),
        SetsProperties(
            eks=("ami_type",),
            karpenter=("node_class",),
            gke=("image_type", "shielded_instance_config"),
            aks=("os_sku",),
        ),
    ] = None
    """Image family: al2023 or bottlerocket on EKS, cos or ubuntu on GKE, ubuntu2204, ubuntu2404 or azurelinux3 on
    AKS. The default is al2023 on EKS, cos on GKE, and ubuntu2404 on AKS.
    """
    ami: Annotated[
        str | None, _OWN_IMAGE, SetsProperties(eks=("ami_type", "image_id"), karpenter=("node_class",))
    ] = Field(default=None, pattern=r"^ami-[0-9a-f]{8,17}$", examples=["ami-0a1b2c3d4e5f60718"])
    """A custom AMI on EKS, based on the image family."""
    release: Annotated[
        str | None,
        _NO_RELEASE,
        SetsProperties(eks=("release_version",), karpenter=("node_class",), gke=("version",)),
        Examples(eks="1.36.2-20260818", gke="1.35.1-gke.1396000"),
    ] = Field(default=None, pattern=r"^v?\d[0-9a-z.-]+$")
    """Release of the node image. Changing it rolls the nodes. This is the way to patch nodes. On EKS, it is a
    release of the family's image, such as 1.36.2-20260818 (AL2023) or 1.64.0-2f4c3a1b (Bottlerocket). With
    Karpenter, v20260818 and v1.64.0 are also accepted. If `release` is unset, a managed node group has the newest
    release when it is created. A rolling update for another reason also moves it to the newest release. With
    Karpenter, the default is the release in the catalogue. On GKE, it is the version of the nodes, such as
    1.35.1-gke.1396000, which they keep until it is out of support. If unset on GKE, new nodes have the cluster's
    version, and GKE upgrades them afterwards.
    """
    fast_pull: Annotated[
        bool,
        _NO_IMAGE_CACHE,
        SetsProperties(
            eks=("user_data", "block_device_mappings"), karpenter=("node_class",), gke=("gcfs_config",)
        ),
    ] = False
    """Start pods with large container images sooner. On EKS, layers are fetched and unpacked in parallel (SOCI).
    This uses CPU and memory on the node, and needs a disk with at least 600 MiB/s. The program sets the throughput
    of gp3 volumes that store images to 750 MiB/s. On GKE, image streaming starts a pod while its image is still
    being fetched, but only if the image is in Artifact Registry. Disabled by default, because AWS calls the
    feature experimental, and on GKE it needs an additional API and role.
    """
    cache: Annotated[
        str | None,
        _NO_IMAGE_CACHE,
        SetsProperties(eks=("block_device_mappings",), karpenter=("node_class",), gke=("secondary_boot_disks",)),
        Examples(eks="snap-0a1b2c3d4e5f60718", gke="projects/my-project/global/images/torch-2-9"),
    ] = Field(
        default=None,
        pattern=worded(
            r"^(snap-[0-9a-f]{8,17}|projects/[a-z][a-z0-9:.-]*/global/images/[a-z][a-z0-9-]{0,62})$",
            "the ID of a snapshot, or projects/PROJECT/global/images/NAME with a name of up to 63 characters",
        ),
    )
    """Snapshot or disk image with the container images that a new node contains from the start. On EKS, it is a
    snapshot of the data volume of a Bottlerocket node that has pulled the images. On GKE, it is a disk image that
    gke-disk-image-builder created, and requires `fast_pull`.
    """
    driver: Annotated[str | None, _OWN_IMAGE] = Field(
        default=None, pattern=r"^\d{3}(\.\d+)*$", examples=["595.91.07"]
    )
    """Version or branch of the NVIDIA driver in the image, on EKS with `ami` or `release`. The default is the
    driver branch of the family's default image.
    """


class Network(SpecModel):
    """Network interfaces for GPU traffic between the nodes of a pool, in addition to the pod network."""

    rdma: bool | None = None
    """Use EFA, GPUDirect or InfiniBand interfaces. By default, training pools use them if their machine types
    support them.
    """
    layout: Annotated[
        Literal["ena-and-efa", "efa-primary"] | None,
        On(("eks",), "it arranges EFA interfaces, which only EC2 has"),
    ] = None
    """Layout of the interfaces on EKS. `ena-and-efa` has a primary interface without EFA. `efa-primary` needs one
    fewer interface and is not available with Karpenter. The default is `ena-and-efa` if the machine type supports
    it.
    """
    via: Annotated[
        Literal["networks", "profile", "device-plugin", "dranet"] | None,
        On(("gke",), "EC2 instances have EFA interfaces instead", values=("networks", "profile")),
        On(("eks",), "they give pods EFA interfaces, which only EC2 has", values=("device-plugin", "dranet")),
    ] = None
    """How pods use the interfaces. On EKS, the default is `device-plugin`: pods request vpc.amazonaws.com/efa.
    With `dranet`, pods claim devices of the class efa.networking.k8s.aws. On GKE, `networks` means additional
    VPCs, each with a Network object. `profile` means the accelerator network profile and claims of the class
    mrdma.google.com, for A3 Ultra and newer types. On GKE, the default is `networks` for A3 High and A3 Mega, and
    `profile` for newer types.
    """


class Disk(SpecModel):
    """Boot disk of a node. It is always encrypted."""

    size_gb: int = Field(default=200, ge=20, le=16384)
    type: Annotated[
        Literal["gp3", "io2", "pd-balanced", "pd-ssd", "hyperdisk-balanced", "managed", "ephemeral"] | None,
        On(("eks",), "it is a type of EBS volume", values=("gp3", "io2")),
        On(
            ("gke",),
            "it is a type of Google Cloud disk",
            values=("pd-balanced", "pd-ssd", "hyperdisk-balanced"),
        ),
        On(("aks",), "it is a type of OS disk on AKS", values=("managed", "ephemeral")),
    ] = None
    """Disk type. The default is gp3 on EKS. On GKE, it is pd-balanced, or hyperdisk-balanced if the machine type
    supports only this type. On AKS, it is `ephemeral` (on the machine's own disk, which costs nothing) if the
    machine type has enough space, or else `managed` (a network disk).
    """
    kms_key: Annotated[
        Key | None,
        On(
            ("eks", "gke"),
            "AKS encrypts the disks of all nodes with one disk encryption set",
            fix="set disk_encryption_set in cluster.create, and remove kms_key",
        ),
        SetsProperties(gke=("boot_disk_kms_key",)),
    ] = None
    """Customer-managed key: the ARN of the key or of an alias, or the name of a Cloud KMS key. By default, the
    cloud's default key is used.
    """


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
    """Kernel settings of a pool's nodes from their first boot. The default is the node image's settings."""

    intent: Literal["training", "inference"] | None = None
    """Purpose of the nodes. NVIDIA's tuned profiles define kernel settings for each purpose. Settings that the
    cloud's images do not support are left out.
    """
    sysctls: Annotated[dict[SysctlName, SysctlValue], Field(max_length=50)] = Field(
        default=dict[SysctlName, SysctlValue](), examples=[{"vm.max_map_count": 1048576}]
    )
    """Kernel parameters by name. They are added to the parameters of `intent`, and override parameters with the
    same name. GKE accepts only a fixed list of names.
    """
    huge_pages: int | None = Field(default=None, ge=1, le=524288)
    """Number of 2 MiB huge pages that a node reserves at boot, for pods that request `hugepages-2Mi`. No other pod
    can use this memory. Not available with Karpenter or with EFA. Images for EFA reserve their own huge pages.
    """


class Upgrade(SpecModel):
    """Strategy for replacing the nodes of a pool during an upgrade."""

    strategy: Annotated[
        Literal["surge", "blue-green"],
        On(("gke",), "EKS and AKS replace the nodes of a pool a few at a time", values=("blue-green",)),
    ] = "surge"
    max_surge: Annotated[
        int | None,
        On(
            ("gke", "aks"),
            "EKS starts as many extra nodes as may be unavailable at once, or none for reserved capacity",
            fix="write max_unavailable instead",
        ),
    ] = Field(default=None, ge=0, le=100)
    """Number of additional nodes during an upgrade. The default is 0 for reserved capacity or with a placement
    policy, else 1. Not available on EKS, which chooses this number itself. Not available for flex-start nodes,
    which are not upgraded.
    """
    max_unavailable: int | None = Field(default=None, ge=0, le=100)
    """Number of nodes that may be unavailable at the same time. The default is 1 if `max_surge` is 0. EKS requires
    a number from 1 to `count.max`.
    """


class Karpenter(SpecModel):
    """Settings of an EKS pool in which Karpenter creates nodes for pending pods and removes unused nodes."""

    alternatives: Annotated[tuple[str, ...], SetsProperties(karpenter=("requirements",))] = ()
    """Former name of `capacity.alternatives`. The new field also exists for managed node groups. Set only one of
    the two fields. In a CPU pool, the alternatives must have no GPUs, and at least as many vCPUs and as much
    memory as `machine_type`.
    """
    consolidate_after: str | None = Field(default=None, pattern=r"^(Never|(\d+(s|m|h))+)$", examples=["10m"])
    """How long Karpenter keeps an unused or underused node. The default depends on the pool's `workload`."""
    expire_after: Annotated[str | None, SetsProperties(karpenter=("template",))] = Field(
        default=None, pattern=r"^(Never|(0+[smh])*0*[1-9]\d*[smh](\d+[smh])*)$", examples=["336h"]
    )
    """Age at which a node is replaced. The default depends on the pool's `workload`."""
    limits: Annotated[dict[Literal["cpu", "memory"], Quantity], Field(min_length=1)] | None = None
    """Maximum total CPU and memory of the pool's nodes. The limits must be enough for `count.max` nodes of
    `machine_type`, and must not exceed the resources of `count.max` nodes of the largest alternative. The limits
    on nodes and GPUs are computed from `count`.
    """
