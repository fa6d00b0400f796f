"""Decides who installs the driver, toolkit and device plugin on a pool's nodes: the node image, the cloud or the
GPU Operator.

Sources: NVIDIA GPU Operator docs (Google GKE, Amazon EKS) and its v26.7.0 source; awslabs/amazon-eks-ami;
bottlerocket.dev (kubelet-device-plugins) and bottlerocket-core-kit; read 2026-11-21.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from gpu_platform.base import names
from gpu_platform.catalog import Catalog, OperatorRelease
from gpu_platform.planning.clouds.protocol import Cloud
from gpu_platform.stack.cluster import Operator
from gpu_platform.stack.pool import Pool
from gpu_platform.stack.sharing import Dra

Owner = Literal["operator", "image", "installer", "cloud", "dra", "none"]
"""Who installs a kind of GPU software.

`installer` is a DaemonSet of the platform. `cloud` means that GKE installs and manages the software. `dra` means
that the DRA driver, which the operator's GPUCluster installs, replaces a device plugin. `none` is for nodes
without GPUs. The stack file's `device_plugin: provider` is `image` on Bottlerocket and `cloud` on GKE.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuAccess:
    """How a pod accesses all GPUs of a node, although the scheduler allocates no GPU to the pod."""

    runtime_class: str | None
    privileged: bool
    driver_dir: str | None
    """Host directory with the driver's files, if no runtime adds them to containers."""
    claim: bool = False
    """Whether access is through a resource claim with admin access, which allocates no device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSoftware:
    """The owner of each kind of GPU software on a node.

    Each kind has exactly one owner, because two device plugins on a node would count its GPUs twice.
    """

    driver: Owner
    toolkit: Owner
    device_plugin: Owner
    driver_branch: int | None = None
    """The driver branch, if it is known for the image."""
    driver_dir: str | None = None
    """Host directory with the driver's files, if no runtime adds them to containers."""

    @property
    def operands(self) -> bool:
        """Whether the operator's DaemonSets run on the nodes: either all of them or none.

        The DaemonSets for metrics and feature discovery wait for the operator's validator, which waits for the
        NVIDIA Container Toolkit. GKE does not install this toolkit, and Bottlerocket hides it from unprivileged
        pods.
        """
        return self.device_plugin in {"operator", "dra"}

    @property
    def gpu_access(self) -> GpuAccess:
        """The node agent's access to NVML on these nodes.

        These runtimes honour NVIDIA_VISIBLE_DEVICES only in privileged containers: Bottlerocket's runtime, the
        runtime in EKS' AL2023 images since v20260423 (awslabs/amazon-eks-ami#2706), and the toolkit as the
        operator installs it.
        """
        if self.device_plugin == "dra":
            return GpuAccess(runtime_class=None, privileged=False, driver_dir=None, claim=True)
        if self.driver_dir is not None:
            return GpuAccess(runtime_class=None, privileged=True, driver_dir=self.driver_dir)
        return GpuAccess(runtime_class="nvidia", privileged=True, driver_dir=None)

    def node_labels(self) -> Mapping[str, str]:
        """Return the labels that keep the operator's DaemonSets off GPU nodes that they must not run on."""
        return {} if self.operands or self.device_plugin == "none" else {names.DEPLOY_OPERANDS_LABEL: "false"}


NO_GPU_SOFTWARE: Final = NodeSoftware(driver="none", toolkit="none", device_plugin="none")
"""The software of nodes without GPUs."""


def node_software(pool: Pool, cloud: Cloud | None, operator: Operator, catalog: Catalog) -> NodeSoftware:
    """Return who installs the GPU software on the nodes of a pool. `CloudSoftware.check` finds contradictions."""
    machine = catalog.machine_types.get(pool.machine_type)
    if machine is not None and not machine.has_gpus:
        return NO_GPU_SOFTWARE
    found = cloud.software.owners(pool, operator, catalog) if cloud is not None else declared_software(operator)
    if not isinstance(pool.sharing, Dra) or found.device_plugin != "operator":
        return found
    # A GPUCluster installs no toolkit, so the nodes' runtime must already be set up for CDI.
    return replace(found, device_plugin="dra", toolkit="image")


def declared_software(operator: Operator) -> NodeSoftware:
    """Return who installs the GPU software according to `operator` in the stack file."""
    return NodeSoftware(
        driver="image" if operator.driver.owner == "host" else "operator",
        toolkit="image" if operator.toolkit == "host" else "operator",
        device_plugin="operator",
    )


def branch_of(version: str) -> int:
    """Return the branch of a driver version, such as 580 for 580.173.02."""
    return int(version.split(".")[0])


def is_full(version: str) -> bool:
    """Return whether a version such as 580.173.02 names one driver, and not all drivers of a branch.

    The operator releases in the catalogue install only drivers whose version has three numbers.
    """
    return version.count(".") == 2


def driver_version(
    pool: Pool, software: NodeSoftware, operator: Operator, release: OperatorRelease | None
) -> str | None:
    """Return the driver version that nodes will have, or None if it is not known before a deployment.

    If the program does not install the driver, the version in the stack file may be partial. A partial version
    matches every version that begins with it.
    """
    declared = operator.driver.version
    match software.driver:
        case "operator":
            return declared or (release.default_driver if release is not None else None)
        case "image" | "installer":
            return pool.image.driver or declared
        case "cloud" | "dra" | "none":
            return None
