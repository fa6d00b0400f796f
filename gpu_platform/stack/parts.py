"""Stack file field `cluster.parts`: which controllers the program installs, and which a cluster has already."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpu_platform.stack.declared import SetsProperties
from gpu_platform.stack.gpu_parts import GpuParts, Part
from gpu_platform.stack.patterns import worded


class EksParts(GpuParts):
    """Controllers that pools of EKS need. `install`: the program installs one, and refuses to beside another;
    `present`: the owner of an existing cluster has installed it, and the program leaves it alone."""

    karpenter: Part = "install"
    """Karpenter and its CRDs; with `present` pools with `provisioner: karpenter` get only NodePools and
    EC2NodeClasses."""
    karpenter_node_role: Annotated[str | None, SetsProperties(karpenter=("node_role",))] = Field(
        default=None,
        pattern=worded(r"^[A-Za-z0-9_+=,.@-]{1,64}$", "the name of an IAM role, up to 64 characters, not its ARN"),
        examples=["KarpenterNodeRole-prod"],
    )
    """With `karpenter: present`: name of the IAM role of nodes that the controller may pass, with an access entry.
    Unset: the program creates a role, and the controller's owner must allow `iam:PassRole` on it."""
    cluster_autoscaler: Literal["install", "present", "none"] = "install"
    """Cluster Autoscaler, for pools with `provisioner: managed` whose `count` has a range. `present`: that of the
    owner finds the node groups by the tags that EKS sets; `none`: a person changes the number of nodes."""
    efa_plugin: Part = "install"
    """EFA device plugin; one that is present must tolerate the taints of the pools."""
    dranet: Part = "install"
    """EFA DRA driver (DRANET), which pools with `network: {via: dranet}` need; one that is present must tolerate
    the taints of the pools."""
