"""How a cloud pool's nodes are made: image, network, disks, upgrades. Every field has a default that fits."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpu_platform.spec._types import Quantity, SpecModel
from gpu_platform.spec.declared import On, Shows

ImageFamily = Literal["al2023", "bottlerocket", "cos", "ubuntu"]


_OWN_IMAGE = On(("eks",), "GKE nodes run Google's images, and the driver is installed on them afterwards")


class Image(SpecModel):
    """The node image."""

    family: Annotated[
        ImageFamily | None,
        On(("eks",), "GKE has images of its own", values=("al2023", "bottlerocket")),
        On(("gke",), "EKS has images of its own", values=("cos", "ubuntu")),
        Shows(eks=("ami_type",), karpenter=("node_class",), gke=("image_type", "shielded_instance_config")),
    ] = None
    """Unset: al2023 on EKS, cos on GKE. EKS has al2023 and bottlerocket; GKE has cos and ubuntu."""
    ami: Annotated[str | None, _OWN_IMAGE, Shows(eks=("ami_type", "image_id"), karpenter=("node_class",))] = Field(
        default=None, pattern=r"^ami-[0-9a-f]{8,17}$", examples=["ami-0a1b2c3d4e5f60718"]
    )
    """EKS: an image of your own, built on that family."""
    driver: Annotated[str | None, _OWN_IMAGE] = Field(
        default=None, pattern=r"^\d{3}(\.\d+)*$", examples=["595.91.07"]
    )
    """EKS, with `ami`: the NVIDIA driver that the image brings; unset: that of the family's own image."""


class Network(SpecModel):
    """The network between the nodes of a pool, beside the one that pods have."""

    rdma: bool | None = None
    """EFA or GPUDirect interfaces; unset: for training pools of machine types that have them."""
    layout: Annotated[
        Literal["ena-and-efa", "efa-primary"] | None, On(("eks",), "it orders EFA interfaces, which EC2 has")
    ] = None
    """EKS: `ena-and-efa` has a plain primary interface; `efa-primary` saves one interface; Karpenter
    has none. Unset: ena-and-efa where the machine type allows it."""
    via: Annotated[
        Literal["networks", "profile"] | None, On(("gke",), "EC2 instances have EFA interfaces instead")
    ] = None
    """GKE: extra VPCs that pods join by `networks`, or the accelerator network profile. Unset: networks for A3
    High and Mega, profile for newer types."""


class Disk(SpecModel):
    """The boot disk; always encrypted."""

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
    """Unset: gp3 on EKS; on GKE pd-balanced, hyperdisk-balanced where the machine type takes no other."""
    kms_key: Annotated[str | None, Shows(gke=("boot_disk_kms_key",))] = None
    """A key of your own (ARN, or a Cloud KMS key's name); unset: the cloud's default key."""


class Upgrade(SpecModel):
    """How nodes are replaced by newer ones."""

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
    """Extra nodes meanwhile; unset: 0 where capacity is reserved or placed, else 1. EKS decides this by itself."""
    max_unavailable: int | None = Field(default=None, ge=0, le=100)
    """Nodes that may be away at once; unset: 1 where there is no surge."""


class Karpenter(SpecModel):
    """EKS: nodes come and go with the pods that need them."""

    alternatives: Annotated[tuple[str, ...], Shows(karpenter=("requirements",))] = ()
    """Further machine types that will do: same GPU model, same number of GPUs, same architecture."""
    consolidate_after: str | None = Field(default=None, pattern=r"^(Never|(\d+(s|m|h))+)$", examples=["10m"])
    """How long a node that could go is kept; unset: follows from the workload."""
    expire_after: Annotated[str | None, Shows(karpenter=("template",))] = Field(
        default=None, pattern=r"^(Never|(\d+(s|m|h))+)$", examples=["336h"]
    )
    """When a node is replaced for its age; unset: follows from the workload."""
    limits: Annotated[dict[Literal["cpu", "memory"], Quantity], Field(min_length=1)] | None = None
    """Beside `nvidia.com/gpu`, which follows from the pool's count: what all nodes together may have."""
