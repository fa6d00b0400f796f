"""Stack file field `cluster.parts`: which controllers the program installs, and which the cluster already has."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpu_platform.stack.declared import SetsProperties
from gpu_platform.stack.gpu_parts import GpuParts, Part
from gpu_platform.stack.patterns import worded


class EksParts(GpuParts):
    """Controllers for EKS pools. With `install`, the program installs the controller, and refuses a cluster that
    already has it. With `present`, the owner of an existing cluster has installed it, and the program does not
    change it.
    """

    karpenter: Part = "install"
    """Karpenter and its CRDs. With `present`, the program only creates NodePools and EC2NodeClasses for pools with
    `provisioner: karpenter`.
    """
    karpenter_node_role: Annotated[str | None, SetsProperties(karpenter=("node_role",))] = Field(
        default=None,
        pattern=worded(r"^[A-Za-z0-9_+=,.@-]{1,64}$", "the name of an IAM role, up to 64 characters, not its ARN"),
        examples=["KarpenterNodeRole-prod"],
    )
    """With `karpenter: present`, the name of an IAM role for nodes. The role needs an access entry, and the
    Karpenter controller must be allowed to pass the role. If unset, the program creates a role, and the
    controller's owner must allow `iam:PassRole` on it.
    """
    cluster_autoscaler: Literal["install", "present", "none"] = "install"
    """Cluster Autoscaler, for pools with `provisioner: managed` whose `count` has a range. With `present`, the
    existing autoscaler finds the node groups by the tags that EKS sets. With `none`, somebody changes the number
    of nodes manually.
    """
    efa_plugin: Part = "install"
    """EFA device plugin. With `present`, it must tolerate the taints of the pools."""
    dranet: Part = "install"
    """EFA DRA driver (DRANET), for pools with `network: {via: dranet}`. With `present`, it must tolerate the
    taints of the pools.
    """
