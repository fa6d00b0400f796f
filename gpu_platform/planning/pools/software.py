"""Who brings what of NVIDIA's stack to a pool's nodes: the node image, the cloud, or the GPU Operator.

Sources: NVIDIA GPU Operator docs (Google GKE, Amazon EKS) and its v26.7.0 source; awslabs/amazon-eks-ami;
bottlerocket.dev (kubelet-device-plugins) and bottlerocket-core-kit; read 2026-11-21.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from gpu_platform import names
from gpu_platform.catalog import Catalog, NodeImage, OperatorRelease
from gpu_platform.planning.problems import Problems
from gpu_platform.spec.cluster import Cluster, EksCluster, GkeCluster, Operator
from gpu_platform.spec.pool import Pool
from gpu_platform.spec.sharing import Dra

Owner = Literal["operator", "image", "gke", "dra"]
"""`dra`: in place of a device plugin, the DRA driver, which the operator's GPUCluster brings."""

GKE_NVIDIA_DIR = "/home/kubernetes/bin/nvidia"
"""Where drivers are on GKE's nodes, and where the toolkit may write: it survives a reboot and may be executed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuAccess:
    """How a pod gets at every GPU of a node without taking one from the scheduler."""

    runtime_class: str | None
    privileged: bool
    driver_dir: str | None
    """Directory of the host with the driver's files, where no runtime brings them into the container."""
    claim: bool = False
    """By a resource claim with admin access, which takes no device from anybody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSoftware:
    """One owner each, never two: two device plugins on one node count its GPUs twice."""

    driver: Owner
    """On GKE, `image` is the installer DaemonSet of the platform's own, and `gke` GKE's installation."""
    toolkit: Owner
    device_plugin: Owner
    driver_branch: int | None = None
    """Branch of the driver where an image brings it and says which."""

    @property
    def operands(self) -> bool:
        """Whether the operator's DaemonSets run on the nodes.

        They come together: metrics and feature discovery wait for the operator's validator, and that for a
        toolkit which GKE's own stack lacks and Bottlerocket hides from pods without privileges.
        """
        return self.device_plugin in {"operator", "dra"}

    @property
    def gpu_access(self) -> GpuAccess:
        """How the node agent reads NVML on these nodes."""
        if self.device_plugin == "dra":
            return GpuAccess(runtime_class=None, privileged=False, driver_dir=None, claim=True)
        if self.toolkit == "gke":
            return GpuAccess(runtime_class=None, privileged=True, driver_dir=GKE_NVIDIA_DIR)
        # Bottlerocket's runtime takes NVIDIA_VISIBLE_DEVICES from privileged containers alone.
        return GpuAccess(runtime_class="nvidia", privileged=self.device_plugin == "image", driver_dir=None)

    def node_labels(self) -> Mapping[str, str]:
        """Return the labels that keep off the nodes what the operator runs elsewhere in the cluster."""
        return {} if self.operands else {names.DEPLOY_OPERANDS_LABEL: "false"}


def node_image(pool: Pool, cluster: Cluster | None, catalog: Catalog) -> NodeImage | None:
    """Return the image that the program gives the nodes; None where it gives none, or the family is wrong."""
    if isinstance(cluster, EksCluster):
        return catalog.node_images.get(("aws", pool.image.family or "al2023"))
    if isinstance(cluster, GkeCluster):
        return catalog.node_images.get(("gcp", pool.image.family or "cos"))
    return None


def node_software(pool: Pool, cluster: Cluster | None, operator: Operator, catalog: Catalog) -> NodeSoftware:
    """Return who brings what to the nodes of a pool; what is contradictory is for `check_software`."""
    found = _with_device_plugin(pool, cluster, operator, catalog)
    if not isinstance(pool.sharing, Dra) or found.device_plugin != "operator":
        return found
    # A GPUCluster brings no toolkit: the runtime of the nodes must be set up for CDI.
    return replace(found, device_plugin="dra", toolkit="image")


def _with_device_plugin(pool: Pool, cluster: Cluster | None, operator: Operator, catalog: Catalog) -> NodeSoftware:
    image = node_image(pool, cluster, catalog)
    if image is None:
        return NodeSoftware(
            driver="image" if operator.driver.owner == "host" else "operator",
            toolkit="image" if operator.toolkit == "host" else "operator",
            device_plugin="operator",
        )
    if image.provider == "gcp":
        return _on_gke(pool, image)
    plugin = pool.device_plugin or ("provider" if "device-plugin" in image.brings else "operator")
    said = pool.image.driver
    return NodeSoftware(
        driver="image" if "driver" in image.brings else "operator",
        toolkit="image" if "toolkit" in image.brings else "operator",
        device_plugin="image" if plugin == "provider" else "operator",
        driver_branch=branch_of(said) if said is not None else image.driver_branch,
    )


def _on_gke(pool: Pool, image: NodeImage) -> NodeSoftware:
    if pool.device_plugin == "provider":
        return NodeSoftware(driver="gke", toolkit="gke", device_plugin="gke")
    return NodeSoftware(
        # The operator has driver containers for Ubuntu, and none for Container-Optimized OS.
        driver="operator" if image.family == "ubuntu" else "image",
        toolkit="operator",
        device_plugin="operator",
    )


def branch_of(version: str) -> int:
    """Return the branch of a driver version: 580 of 580.173.02."""
    return int(version.split(".")[0])


def driver_version(
    pool: Pool, software: NodeSoftware, operator: Operator, release: OperatorRelease | None
) -> str | None:
    """Return the exact driver version that nodes will have, or None where nobody says it before a deploy."""
    said = operator.driver.version
    match software.driver:
        case "operator":
            return said or (release.default_driver if release is not None else None)
        case "image":
            own = pool.image.driver
            # A branch alone is no version that a node could be held against.
            return said if own is None else own if "." in own else None
        case "gke" | "dra":
            return None


def why_software(pool: Pool, cluster: Cluster, software: NodeSoftware, catalog: Catalog) -> str:
    """Return the reason for the owners on a cloud pool, for a reader."""
    image = node_image(pool, cluster, catalog)
    family = image.family if image is not None else ""
    match software.device_plugin, software.driver:
        case "dra", _:
            return "mode dra: the DRA driver offers the GPUs, and the image has the toolkit set up for CDI"
        case "gke", _:
            return "the stack says provider: GKE shares the GPUs, and no operand of the operator runs there"
        case "image", _:
            return f"{family} has all three; no operand of the operator runs there, and so no DCGM exporter"
        case _, "operator":
            return f"{family} has none of them, and GKE's own are off"
        case _, "image" if isinstance(cluster, GkeCluster):
            return f"the platform's own installer brings the driver to {family}; GKE's driver and plugin are off"
        case _:
            return f"{family} has driver and toolkit, and no device plugin"


def check_software(pool: Pool, cluster: Cluster, operator: Operator, catalog: Catalog, problems: Problems) -> None:
    """Record a pool to which two owners would bring the same thing, or nobody would; its machine type is known."""
    image = node_image(pool, cluster, catalog)
    if image is None:
        return
    of_operator = Problems("operator", problems.found)
    if image.provider == "gcp":
        _check_gke(pool, image, operator, of_operator)
        return
    _check_eks_plugin(pool, image, problems)
    _check_eks_owners(pool, image, operator, of_operator)
    branch = node_software(pool, cluster, operator, catalog).driver_branch
    version = operator.driver.version
    if version is not None and branch is not None and branch_of(version) != branch:
        of_operator.at("driver").at("version").add(
            f"{version!r} for pool {pool.name}, whose image brings branch {branch}",
            f"a driver of branch {branch}: on EKS the image decides ({image.source})",
            "leave version out, or name an image of your own in image.ami and its driver in image.driver",
        )


def _check_eks_plugin(pool: Pool, image: NodeImage, problems: Problems) -> None:
    own = "device-plugin" in image.brings
    # Its image can turn its own plugin off only since Bottlerocket 1.63; older ones do not start on the setting.
    if own and pool.device_plugin == "operator":
        problems.at("device_plugin").add(
            f"'operator' on {image.family}, whose image runs a device plugin of its own",
            "provider: two device plugins on one node count its GPUs twice",
            "remove device_plugin, or write image: {family: al2023}",
        )
    if not own and pool.device_plugin == "provider":
        problems.at("device_plugin").add(
            f"'provider' on {image.family}",
            "operator: this image has no device plugin, so nobody would offer the GPUs",
            "remove device_plugin, or write image: {family: bottlerocket}",
        )


def _check_eks_owners(pool: Pool, image: NodeImage, operator: Operator, problems: Problems) -> None:
    if operator.driver.owner == "operator" and "driver" in image.brings:
        problems.at("driver").at("owner").add(
            f"'operator' for pool {pool.name}, whose {image.family} image has a driver",
            f"host: two drivers on one node fight for the kernel module ({image.source})",
            "leave owner out: every pool then takes the driver of its image",
        )
    if operator.toolkit == "operator" and "toolkit" in image.brings:
        problems.at("toolkit").add(
            f"'operator' for pool {pool.name}, whose {image.family} image has the toolkit",
            "host: two toolkits on one node overwrite each other's runtime configuration",
            "leave toolkit out",
        )


def _check_gke(pool: Pool, image: NodeImage, operator: Operator, problems: Problems) -> None:
    owner = operator.driver.owner
    driver, toolkit = problems.at("driver").at("owner"), problems.at("toolkit")
    if pool.device_plugin == "provider":
        if owner == "operator":
            driver.add(
                f"'operator' for pool {pool.name}, where GKE installs the driver for its own device plugin",
                "host: two drivers on one node fight for the kernel module",
                f"leave owner out, or write device_plugin: operator for {pool.name}",
            )
        if operator.toolkit == "operator":
            toolkit.add(
                f"'operator' for pool {pool.name}, where GKE's device plugin works without a toolkit",
                "host, or nothing: pools with the operator's device plugin get the toolkit either way",
                "leave toolkit out",
            )
        return
    if operator.toolkit == "host":
        toolkit.add(
            f"'host' for pool {pool.name}",
            "operator: no image of GKE has the toolkit, so nobody would bring it",
            "leave toolkit out",
        )
    if image.family == "ubuntu" and owner == "host":
        driver.add(
            f"'host' for pool {pool.name}, whose ubuntu image has no driver",
            "operator: with the operator's device plugin GKE installs none, so nobody would bring it",
            f"leave owner out, or write device_plugin: provider for {pool.name}",
        )
    if image.family != "ubuntu" and owner == "operator":
        driver.add(
            f"'operator' for pool {pool.name} on {image.family}",
            "host: the operator has no driver container for Container-Optimized OS; the platform's installer "
            "brings the driver",
            f"leave owner out, or write image: {{family: ubuntu}} for {pool.name}",
        )
