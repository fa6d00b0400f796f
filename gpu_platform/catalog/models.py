"""Models of the catalogue's entries: GPUs, machine types, node images, charts, prices, quotas, operator releases.

Facts are YAML files in `facts/`. Each entry has its source and the date when it was read.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Annotated, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

CloudVendor = Literal["aws", "gcp", "azure"]
Service = Literal["eks", "gke", "aks"]
"""Kubernetes service of a cloud."""
ImageFamily = Literal["al2023", "bottlerocket", "cos", "ubuntu", "ubuntu2204", "ubuntu2404", "azurelinux3"]
"""Family of node images of a cloud."""
VendorName = Literal[CloudVendor, "on-prem"]
"""Vendor of a machine type. In contrast, `provider` in the stack file is a Kubernetes service (eks or gke) or an
existing cluster.
"""


class Fact(BaseModel):
    """Base class of all catalogue entries. Instances are immutable, and undeclared fields are refused."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")


Band = tuple[int | None, float]
"""Width of a band of CPU or memory, or None for the rest, and the percentage that is reserved of it."""


class KubeReserved(Fact):
    """The CPU and memory that the kubelet of a vendor's nodes reserves for itself and the container runtime."""

    cpu: tuple[Band, ...] = Field(description="bands in millicores, the lowest first")
    memory: tuple[Band, ...] = Field(default=(), description="bands in MiB, the lowest first")
    memory_mib: int = Field(default=0, description="memory in addition to the bands")
    memory_mib_per_pod: int = Field(default=0, description="memory for each pod that the node may run")
    memory_at_most: int = Field(default=100, description="highest percentage of the memory that is reserved")


class Vendor(Fact):
    """A vendor of machine types: a cloud, or `on-prem` for machines outside any cloud."""

    name: VendorName = Field(description="`vendor` of its machine types")
    provider: str = Field(description="provider of clusters with these machine types")
    title: str = Field(description="heading of these machine types in the documentation")
    fabric: str = Field(
        default="RDMA",
        description="network between GPUs of different nodes, unless it depends on the family",
    )
    quota_unit: str = Field(description="unit of GPU quotas")
    reference_region: str | None = Field(
        default=None,
        description="region whose list prices are shown for a cluster outside any cloud region, or None if the "
        "vendor publishes no prices",
    )
    layouts_by_gpu: bool = Field(description="whether the GPUs of a node may have different MIG layouts")
    rdma_huge_pages: int = Field(
        default=0, description="number of huge pages of 2 MiB that a node must reserve for RDMA"
    )
    first_zone: str = Field(default="", description="zone of a suggested pool, with {region} for its region")
    needs_zone: Literal["never", "several-with-fabric", "always"] = Field(
        default="never", description="which suggested pools must name a zone"
    )
    reserved: KubeReserved

    @property
    def is_cloud(self) -> bool:
        """Whether the program can create nodes with this vendor's machine types and configure their kubelets."""
        return self.reference_region is not None

    @property
    def rdma_huge_pages_mib(self) -> int:
        """Memory in MiB that a node must reserve as huge pages for RDMA."""
        return 2 * self.rdma_huge_pages


class Source(Fact):
    """Source of a fact, and the date when it was read."""

    title: str
    url: str = ""
    date: datetime.date

    def __str__(self) -> str:
        return f"{self.title}, {self.date.isoformat()}"


class MigProfile(Fact):
    """A MIG profile of a GPU model.

    A GPU instance with the profile uses `compute_slices` of the GPU's compute slices and `memory_slices`
    consecutive memory slices, beginning at one of the slice indexes in `starts`. `max_instances` is the maximum
    number of instances on one GPU. `media_engines` marks a variant with the media engines (`+me`, `+me.all`). A
    GPU has these engines only once, so it can have only one such instance. `decoders` is the number of the GPU's
    decoders that the instance uses (see `Mig.decoders`).
    """

    name: str
    compute_slices: int = Field(ge=1)
    memory_slices: int = Field(ge=1)
    memory_mib: int = Field(ge=1, description="nominal memory of one instance as NVML reports it, in MiB")
    starts: tuple[int, ...]
    max_instances: int = Field(ge=1)
    media_engines: bool = False
    decoders: int = 0


def _pairs(value: object) -> object:
    return tuple(cast("Mapping[str, int]", value).items()) if isinstance(value, Mapping) else value


class Mig(Fact):
    """MIG support of a GPU model."""

    compute_slices: int
    memory_slices: int
    profiles: tuple[MigProfile, ...]
    decoders: int | None = Field(
        default=None,
        description="number of NVDECs, each with an NVENC and a JPEG engine; None if layouts are limited only by "
        "slices, not by NVDECs",
    )
    # Pairs instead of a dict keep the model hashable, and layouts are cached by model.
    balanced: Annotated[tuple[tuple[str, int], ...], BeforeValidator(_pairs)] | None = Field(
        default=None,
        description="number of instances of each profile in mig-parted's `all-balanced` layout, or None if "
        "mig-parted has no such layout for this GPU",
    )
    source: Source

    def profile(self, name: str) -> MigProfile | None:
        """Return the profile with exactly this name, or None."""
        return next((profile for profile in self.profiles if profile.name == name), None)

    def named_layout(self, name: str) -> Mapping[str, int] | None:
        """Return the layout that mig-parted calls `all-balanced` or `all-<profile>`, or None if mig-parted has no
        such layout.

        In these names, `.` may replace `+`: `all-1g.10gb.me`. Source: mig-parted v0.15.0, pkg/mig/builder.
        """
        if name == "all-balanced":
            return None if self.balanced is None else dict(self.balanced)
        wanted = name.removeprefix("all-").replace("+", ".")
        found = next((each for each in self.profiles if each.name.replace("+", ".") == wanted), None)
        return None if found is None else {found.name: found.max_instances}


class Gpu(Fact):
    """A GPU model."""

    model: str = Field(description="our short name, such as a100-80gb, h100-80gb, t4")
    product: str = Field(description="product name in NVML, such as NVIDIA A100-SXM4-80GB")
    aliases: tuple[str, ...] = ()
    pci_id: str | None = Field(
        default=None,
        pattern=r"^0x[0-9A-F]{8}$",
        description="PCI device and vendor ID in the format of mig-parted's device-filter, such as 0x20B210DE, or "
        "None if not known",
    )
    architecture: Literal["volta", "turing", "ampere", "ada", "hopper", "blackwell"]
    compute_capability: str
    memory_mib: int = Field(description="total memory as NVML reports it, in MiB")
    tensor_tflops: float | None = Field(
        default=None,
        gt=0,
        description="dense bfloat16 throughput of the tensor cores in TFLOP/s, or None if not known",
    )
    ecc: bool = Field(description="whether ECC memory is enabled by default")
    row_remapping: bool = Field(
        description="whether the GPU remaps faulty memory rows (Ampere and newer); older GPUs retire pages"
    )
    pcie_generation: int
    pcie_width: int = 16
    slowdown_celsius: int | None = Field(default=None, description="temperature of the hardware slowdown in °C")
    minimum_driver_branch: int = Field(description="first driver branch that supports the GPU, such as 450")
    maximum_driver_branch: int | None = Field(
        default=None,
        description="last driver branch that supports the GPU, or None if the newest branches support it",
    )
    mig: Mig | None = None
    source: Source

    @property
    def product_label(self) -> str:
        """Value of the label `nvidia.com/gpu.product`: the name in NVML with dashes instead of spaces."""
        return self.product.replace(" ", "-")


class MachineType(Fact):
    """A machine type. It has whole GPUs, or no GPUs if it is for CPU pools."""

    name: str
    vendor: VendorName
    gpu: str | None = Field(default=None, description="a Gpu.model, or None for a machine without GPUs")
    gpu_count: int = Field(default=0, ge=0)
    vcpu: int
    memory_mib: int
    arch: Literal["amd64", "arm64"] = "amd64"
    nvlinks_per_gpu: int = Field(
        default=0,
        description="number of active NVLinks of each GPU; it depends on the machine type, not on the GPU model",
    )
    nvlink_pairs: bool = Field(
        default=False,
        description="whether NVLink bridges connect the GPUs, which are PCIe cards, in pairs; otherwise NVLink "
        "connects all GPUs",
    )
    numa_nodes: tuple[int, ...] | None = Field(
        default=None, description="NUMA node of each GPU, in index order, or None if not known or hidden by the VM"
    )
    rdma_interfaces: int = Field(
        default=0,
        description="number of EFA interfaces on AWS, GPU NICs on GCP, or InfiniBand interfaces on Azure",
    )
    default_enis: int | None = Field(
        default=None,
        ge=1,
        description="number of network interfaces of EC2's default network card, or None on other clouds and if "
        "nodeadm's table has no entry",
    )
    ips_per_eni: int | None = Field(
        default=None,
        ge=2,
        description="number of IPv4 addresses of each network interface on EC2, or None on other clouds",
    )
    ebs_volumes: int | None = Field(
        default=None,
        ge=1,
        description="number of EBS volumes that EC2 can attach, or None on other clouds and if it is not known",
    )
    ebs_limit: Literal["dedicated", "shared"] = Field(
        default="dedicated",
        description="shared if network interfaces after the first also count towards ebs_volumes",
    )
    local_nvme_gb: int = 0
    local_disk_gb: int | None = Field(
        default=None,
        description="capacity of each local disk in GB; None means 375 on GCP, and not recorded on other clouds",
    )
    ephemeral_os_gib: int | None = Field(
        default=None,
        description="size of the largest ephemeral OS disk on Azure in GiB, or None on other clouds, and if the "
        "machine type does not support one or its size is not known",
    )
    accelerator_label: str | None = Field(default=None, description="GKE's cloud.google.com/gke-accelerator value")
    verified: bool = True
    source: Source

    @property
    def has_gpus(self) -> bool:
        """Whether the machine has GPUs. A pool of machines without GPUs is a CPU pool."""
        return self.gpu is not None

    @property
    def all_linked(self) -> bool:
        """Whether NVLink connects each GPU with all others of the machine."""
        return self.nvlinks_per_gpu > 0 and (not self.nvlink_pairs or self.gpu_count == 2)

    @model_validator(mode="after")
    def _gpus(self) -> MachineType:
        if (self.gpu is None) != (self.gpu_count == 0):
            raise ValueError(f"{self.name}: gpu and gpu_count together, or neither for a machine without GPUs")
        return self


class NodeDaemonSet(Fact):
    """A DaemonSet, or several DaemonSets of the same owner, on the nodes of a cloud. CPU and memory are what its
    pods on a node request.
    """

    name: str
    vendor: VendorName
    runs: Literal["always", "with-setting", "with-fabric", "instead"] = Field(
        description="on which nodes: on all, with settings of the stack file (with-fabric: on machine types with "
        "RDMA interfaces), or instead of another entry, which requests more"
    )
    cpu_millicores: int = 0
    memory_mib: int = 0
    pods: int = Field(default=1, description="number of pods on each node")
    source: Source


CapacityType = Literal["on-demand", "spot", "reservation", "capacity-block", "flex-start"]


class Sale(Fact):
    """How a cloud sells machine types that are not available on demand."""

    name: str
    types: str = Field(description="regular expression for the machine types")
    sold_as: tuple[CapacityType, ...] = Field(
        min_length=1, description="capacity types, as in `capacity` of a pool"
    )
    source: Source


class NvlinkDomain(Fact):
    """Nodes whose GPUs are connected by a single NVLink fabric."""

    nodes: tuple[int, ...] = Field(
        min_length=1, description="numbers of nodes in a domain, one number for each size that is sold"
    )
    topology: str | None = Field(
        default=None,
        description="accelerator topology in Compute Engine's workload policy, such as 1x72, or None on other "
        "clouds",
    )
    source: Source

    @property
    def most_nodes(self) -> int:
        """Number of nodes in the largest domain."""
        return max(self.nodes)


class RdmaDrivers(Fact):
    """The driver branches that support GPUDirect RDMA over the NICs of a machine type."""

    first_without: int = Field(
        description="first driver branch that does not support GPUDirect RDMA over the NICs, such as 595"
    )
    source: Source


class MachineFamily(Fact):
    """Properties that all machine types of a family share, such as `p5` of EC2 or `NDisr_H100_v5` of Azure."""

    name: str
    nvlink_domain: NvlinkDomain | None = None
    rdma_drivers: RdmaDrivers | None = Field(
        default=None, description="drivers with GPUDirect RDMA, or None if all drivers have it"
    )
    source: Source


class PlainFamily(MachineFamily):
    """A family of a cloud whose families have no other properties."""

    vendor: Literal["azure"]


class AwsFamily(MachineFamily):
    """Properties that all instance types of an EC2 family such as `p5` or `g6e` share."""

    vendor: Literal["aws"]
    first_efa_card: int = Field(default=0, description="index of the first network card that carries EFA")
    efa_only: bool = Field(default=True, description="whether cards after the first have EFA-only interfaces")
    efa_only_beside_primary: bool = Field(
        default=True,
        description="whether card 0 supports an EFA-only interface (device 1) in addition to the primary "
        "interface (device 0)",
    )
    secondary_device_index: int = Field(default=1, description="device index of EFA interfaces on cards above 0")
    cluster_placement: bool = Field(default=True, description="cluster placement groups")
    capacity_blocks: bool = Field(default=False, description="whether EC2 Capacity Blocks for ML are available")
    instances_end_minutes: int = Field(
        default=30,
        description="how many minutes before the end of a block all instances must be terminated, by EC2 or by "
        "the owner",
    )
    efa_cards: tuple[int, ...] = Field(
        default=(), description="indexes of the network cards with EFA, if they are not consecutive"
    )
    mig: bool = Field(default=True, description="whether MIG works with the driver in EKS' images")


class GcpFamily(MachineFamily):
    """Properties that all machine types of a Compute Engine GPU family such as `a3-megagpu` or `g2-standard`
    share.
    """

    vendor: Literal["gcp"]
    fabric: Literal["none", "tcpx", "tcpxo", "rdma"] = Field(description="GPUDirect stack of the GPU NICs")
    compact_placement: bool = Field(default=True, description="compact placement policies")
    compact_with_flex_start: bool = False
    compact_max_nodes: int | None = Field(
        default=None, description="maximum number of nodes per placement policy, or None if not known"
    )
    boot_disk_types: tuple[str, ...] = Field(description="the default first")
    minimum_gke: str | None = Field(
        default=None, description="first GKE version that supports the family, such as 1.27.7-gke.1121000"
    )
    fabric_broken_from: str | None = Field(
        default=None, description="first GKE version whose nodes cannot use `fabric`, such as 1.34.1-gke.1431000"
    )


Family = Annotated[AwsFamily | GcpFamily | PlainFamily, Field(discriminator="vendor")]


class PcieSwitch(Fact):
    """The GPUs and NICs behind one PCIe switch, as PCI addresses."""

    gpus: tuple[str, ...]
    nics: tuple[str, ...]


class InfinibandNumaNode(Fact):
    """A NUMA node of a virtual machine with InfiniBand."""

    node: int = Field(description="number of the NUMA node")
    affinity: str = Field(description="its CPUs as a bit mask, in the kernel's format")
    switches: tuple[PcieSwitch, ...]


class InfinibandCpu(Fact):
    """The CPU of a virtual machine with InfiniBand. NCCL chooses its model of the machine by this CPU."""

    vendor: str
    family: int
    model: int


class InfinibandSeries(Fact):
    """Azure's series with the same PCI devices, and the settings that NCCL needs on their virtual machines."""

    name: str
    families: tuple[str, ...] = Field(description="names in families")
    rate_gbps: int = Field(description="rate of each NIC in Gbit/s")
    cpu: InfinibandCpu
    link_speed: str = Field(description="speed of the PCIe links, in the kernel's format")
    numa_nodes: tuple[InfinibandNumaNode, ...]
    most_nodes: int = Field(description="maximum number of nodes on one fabric")
    nccl: dict[str, str] = Field(description="NCCL's environment variables, without NCCL_TOPO_FILE")
    source: Source


class FabricDaemon(Fact):
    """The vendor's sidecar that receives a fabric's data.

    The sidecar writes to host paths as root. Every setting is fixed, because with a command that a user chooses,
    the sidecar could take over the node.
    """

    name: str = Field(description="of the container")
    annotation: str = Field(description="key of the annotation that assigns devices to the container")
    image: str = Field(description="repository, without a tag or digest")
    release: str = Field(
        description="name of the image in `images`; jobs use the repository of this image for the sidecar"
    )
    command: tuple[str, ...]
    arguments: tuple[str, ...] = Field(
        default=(),
        description="arguments of the sidecar in jobs from the stack file; members' own pods may have other "
        "arguments that match `script`",
    )
    script: str | None = Field(
        default=None,
        description="regular expression (RE2) for the sidecar's only argument, or None if it has no arguments",
    )
    capabilities: tuple[str, ...] = Field(description="capabilities that the container adds")
    mounts: dict[str, str] = Field(description="host paths by path in the container")
    devices: tuple[str, ...] = Field(description="files in /dev that GKE's device injector adds to the container")
    cpu: str = Field(description="CPU request of the container, which is part of the pod's request")
    memory: str = Field(description="memory request of the container, which is part of the pod's request")


class FabricPods(Fact):
    """Node access that pods need to use the GPU NICs of a fabric, taken from the vendor's tests."""

    name: Literal["tcpx", "tcpxo", "rdma"] = Field(description="GPUDirect stack, as in `fabric` of a family")
    daemon: FabricDaemon | None = Field(default=None, description="sidecar of the pods, or None if they need none")
    read_only: tuple[str, ...] = Field(description="host paths that containers may read")
    writable: tuple[str, ...] = Field(default=(), description="host paths that containers may write")
    mounts: dict[str, str] = Field(description="host paths by path in the training container")
    library_path: tuple[str, ...] = Field(
        description="directories in the container that contain the NCCL plugin, for LD_LIBRARY_PATH"
    )
    profile: str | None = Field(
        default=None,
        description="script in the container that sets NCCL's variables, or None if they are all in `env`",
    )
    env: dict[str, str] = Field(default_factory=dict, description="environment variables of the container")
    first_interface: int = Field(description="number N of the pod's interface ethN on the first GPU network")
    test_images: tuple[str, ...] = Field(description="repositories of the vendor's test pods, which run as root")
    test_capabilities: tuple[str, ...] = Field(default=(), description="that they add")
    source: Source


class LaterDriver(Fact):
    """A second driver in a node image. Instances of some families load it at their first boot."""

    families: tuple[str, ...] = Field(min_length=1, description="machine families: g7")
    branch: int = Field(description="minimum branch of the driver, such as 595")
    first_release: str = Field(
        description="first release that contains the driver, as Karpenter names it, such as v20260917"
    )
    source: Source


class NodeImage(Fact):
    """A cloud's family of node images, and the NVIDIA software that these images include."""

    family: ImageFamily
    vendor: CloudVendor
    os_release: tuple[str, str | None] = Field(
        description="ID and VERSION_ID of /etc/os-release; the version is None if the family has several"
    )
    image_types: dict[Literal["amd64", "arm64"], str] = Field(
        description="ami_type on EKS, image_type on GKE or osSKU on AKS"
    )
    plain_image_types: dict[Literal["amd64", "arm64"], str] | None = Field(
        default=None,
        description="ami_type or image_type for machines without GPUs, or None if image_types apply to them, too",
    )
    includes: tuple[Literal["driver", "toolkit", "device-plugin"], ...] = ()
    driver_branch: int | None = Field(default=None, description="branch of the included driver")
    later_drivers: tuple[LaterDriver, ...] = ()
    data_device: str | None = Field(
        default=None, description="device name of the disk that contains the data of pods"
    )
    release: str | None = Field(
        default=None, description="a release such as v20260714, for programs that must pin one"
    )
    first_releases: dict[str, str] = Field(
        default_factory=dict,
        description="first release that supports each Kubernetes version, as Karpenter names it, such as v1.61.0",
    )
    source: Source

    def image_type(self, machine: MachineType) -> str:
        """Return the ami_type (EKS), image_type (GKE) or osSKU (AKS) of a machine's nodes."""
        plain = None if machine.has_gpus else self.plain_image_types
        return (plain or self.image_types)[machine.arch]


class CloudResource(Fact):
    """A type of a cloud's resources, with the inputs and errors that are read for all clouds."""

    name: str = Field(description="Pulumi type, such as aws:eks/cluster:Cluster")
    kubernetes: str | None = Field(default=None, description="input with the Kubernetes version of a cluster")
    always_encrypted_by: str | None = Field(
        default=None, description="vendor that always encrypts Secrets and disks of a cluster, or None"
    )
    own_keys: dict[str, str] = Field(
        default_factory=dict, description="inputs that name a customer-managed key, with the data that it encrypts"
    )
    creation_failed: str | None = Field(
        default=None, description="regular expression for errors after which a creation cannot succeed, or None"
    )


class EksAddon(Fact):
    """An EKS add-on, pinned for each Kubernetes version that a new cluster may have."""

    name: str
    versions: dict[str, str] = Field(
        description="version including the build, such as v1.20.4-eksbuild.2, by Kubernetes minor version, such "
        "as 1.36"
    )
    first_with_efa_only: str | None = Field(
        default=None, description="first version that does not change EFA-only interfaces, such as 1.18.5"
    )
    source: Source


Region = Annotated[str, Field(pattern=r"^([a-z]+(-[a-z]+)+-?\d{1,2}|[a-z]+\d?)$")]
"""A region of AWS, Google Cloud or Azure, such as us-east-1, us-central1 or eastus2."""


class EksRegistry(Fact):
    """The registry from which nodes in a region pull EKS images. Registries of other AWS partitions refuse these
    nodes.
    """

    region: Region
    account: Annotated[str, Field(pattern=r"^\d{12}$")]
    source: Source


class CrdField(Fact):
    """A field that the program or Kueue writes in a custom resource.

    An API server refuses or drops a field that the CRD does not have.
    """

    crd: str = Field(description="name of the CRD, such as trainjobs.trainer.kubeflow.org")
    version: str = Field(description="API version, such as v1alpha1")
    field: str = Field(
        default="",
        description="path from the root of the object, with [] after a list; empty if only the API version counts",
    )
    release: str = Field(description="oldest release with the field, such as Kubeflow Trainer 2.2.0")
    why: str
    by: Literal["program", "kueue"] = "program"
    only_installed: bool = Field(
        default=False, description="whether the program writes the field only if it installs the chart itself"
    )
    source: Source


class Chart(Fact):
    """A pinned Helm chart."""

    name: str
    repository: str = Field(description="https://... or oci://...")
    version: str
    namespace: str = Field(
        description="namespace that the program installs the chart in; no team may have this name"
    )
    api_ports: tuple[int, ...] = Field(
        default=(),
        description="ports of the chart's pods that the API server calls, for webhooks and aggregated API servers",
    )
    pod_ports: tuple[int, ...] = Field(
        default=(), description="ports of members' pods that the chart's controller calls, from its namespace"
    )
    eks_image: str | None = Field(
        default=None,
        description="repository of the chart's image in the EKS registry; the default values name the registry of "
        "a single region",
    )
    crds: Literal["folder", "templates", "none"] = Field(
        description="where the chart contains the CRDs that the program installs: Helm never upgrades CRDs in a "
        "folder `crds`; it upgrades CRDs in templates, but refuses existing CRDs that its release does not own"
    )
    crd_names: tuple[str, ...] = Field(default=(), description="names of the CRDs in templates")
    crd_fields: tuple[CrdField, ...] = Field(
        default=(), description="fields that the chart's CRDs must have, whoever has installed them"
    )
    source: Source

    @property
    def crds_command(self) -> str:
        """Command that applies the CRDs in the chart's folder."""
        oci = self.repository.startswith("oci://")
        chart = f"{self.repository}/{self.name}" if oci else f"{self.name} --repo {self.repository}"
        return (
            f"helm show crds {chart} --version {self.version} | kubectl apply --server-side --force-conflicts -f -"
        )

    @model_validator(mode="after")
    def _check_crds(self) -> Chart:
        if (self.crds == "templates") != bool(self.crd_names):
            raise ValueError("crd_names is set if, and only if, crds is templates")
        return self


class Limit(Fact):
    """A hard limit for the size of a document that grows with the stack file."""

    name: str
    most: int
    unit: str
    source: Source


class ControllerPod(Fact):
    """Requests of a controller's pod, and the paths of the Helm values that override them.

    If a request is missing, the limit counts as the request, as in Kubernetes. If both are missing, the request is
    zero.
    """

    name: str
    cpu_millicores: int | None = None
    memory_mib: int | None = None
    limit_cpu_millicores: int | None = None
    limit_memory_mib: int | None = None
    memory_mib_per_node: int | None = Field(
        default=None,
        description="memory for each node of the cluster, because the pod keeps nodes, pods or their metrics in "
        "memory; None if the memory does not grow, or if the pod has no limit",
    )
    replicas: int = 1
    replicas_at: str | None = None
    resources_at: str | None = None
    selector_at: tuple[str, ...] = Field(
        default=(), description="paths of the pod's nodeSelector; the first path that is set applies"
    )
    enabled_at: str | None = Field(
        default=None, description="path of the Helm value that disables the pod when it is false"
    )
    apart: bool = Field(default=False, description="whether replicas must run on different nodes")
    critical: bool = Field(
        default=False,
        description="whether creating or running other nodes depends on the pod, so that the pod cannot wait for "
        "additional nodes",
    )


class Controller(Fact):
    """Pods of a chart, an EKS add-on or a cloud. Each cluster runs a fixed number of them."""

    name: str
    pods: tuple[ControllerPod, ...]
    source: Source


class PoolProperty(Fact):
    """How a change to one property of a node pool affects its nodes."""

    platform: Literal[Service, "karpenter", "sandbox"]
    name: str = Field(description="name in the platform's API, such as ami_type")
    effect: Literal["replace", "roll", "shrink"] = Field(
        description="replace: the pool is deleted and recreated; roll: its nodes are recreated, a few at a time; "
        "shrink: the pool loses some of its nodes"
    )
    by_upgrade: bool = Field(
        default=False,
        description="whether the roll follows the pool's upgrade strategy, which may leave existing nodes "
        "unchanged",
    )
    because: str
    source: Source


class DrainLimit(Fact):
    """How long a cloud waits for the pods of a node that it drains, and what it does after that.

    For `reclaim`, the limit is the time between the cloud's notice and the termination of a spot node.
    """

    platform: Service
    action: Literal["update", "delete", "rebalance", "reclaim"]
    seconds: int = Field(gt=0)
    then: str = Field(description="what happens at the limit, such as `the update fails`")
    source: Source


class PriceList(Fact):
    """On-demand list prices of a vendor's machine types, from one source.

    If a machine type has no price for a region, its price there is unknown. Prices of other regions are never used
    instead.
    """

    name: str
    vendor: CloudVendor
    source: Source
    usd_per_hour: dict[str, dict[Region, Annotated[float, Field(gt=0, le=100_000)]]] = Field(
        description="price in USD/h of a machine with its GPUs and Linux, by MachineType.name and region"
    )


class PartPrices(Fact):
    """Prices of a machine's components, in USD/h."""

    vcpu: float = Field(gt=0, le=100, description="price of a vCPU")
    memory_gib: float = Field(
        default=0, ge=0, le=100, description="price of a GiB of memory, or 0 if the price of a vCPU includes it"
    )
    local_nvme_gb: float = Field(default=0, ge=0, le=100, description="price of a GB of local SSD")


class PartPriceList(Fact):
    """On-demand list prices of machine types that are priced by component, from one source.

    A price does not mean that the region offers the machine type.
    """

    name: str
    vendor: CloudVendor
    source: Source
    machine_types: tuple[str, ...] = Field(
        min_length=1, description="MachineType.name of each machine type without GPUs"
    )
    regions: dict[Region, PartPrices]


class Offering(Fact):
    """Regions that offer machine types, in addition to the regions with a list price. Known zones are included."""

    name: str
    vendor: CloudVendor
    source: Source
    machine_types: tuple[str, ...] = Field(min_length=1, description="MachineType.name of each")
    regions: dict[Region, tuple[Annotated[str, Field(pattern=r"^([a-z]{3}-\d)?[a-z]$|^[1-9]$")], ...]] = Field(
        description="zones by region, without the region's name, such as a, dfw-2a, or 1 on Azure; empty if only "
        "the region is known"
    )


class GpuQuota(Fact):
    """A cloud's quota for the machines of pools, per account or project and per region.

    Most quotas are for machines with GPUs. Machines without GPUs count by their number of vCPUs.
    """

    vendor: CloudVendor
    families: tuple[str, ...] = Field(
        description="machine families that count against the quota, such as p5, a3-megagpu"
    )
    capacity: Literal["on-demand", "spot"]
    name: str = Field(description="name in the cloud's console")
    unit: Literal["vCPU", "GPU"]
    source: Source


class OperatorRelease(Fact):
    """A release of the NVIDIA GPU Operator, with the versions that it supports."""

    version: str
    date: datetime.date
    status: Literal["supported", "deprecated", "end-of-support"]
    kubernetes: tuple[str, str] = Field(
        description="lowest and highest supported minor version, such as 1.33, 1.36"
    )
    default_driver: str
    drivers: tuple[str, ...]
    toolkit: str
    device_plugin: str
    mig_manager: str
    dcgm_exporter: str = Field(description="versions of DCGM and the exporter, such as 4.6.0-4.8.3")
    dra_driver: str | None = Field(
        default=None,
        description="version of the DRA driver that a GPUCluster of this release manages, or None if the release "
        "has no GPUCluster",
    )
    completes_runtimes: bool = Field(
        default=False,
        description="whether the release's container toolkit sets runtime_type for its runtimes even if the "
        "toolkit reads only containerd's configuration file",
    )
    restarts_clients: bool = Field(
        default=False,
        description="whether a driver change restarts DaemonSets that select nvidia.com/gpu.deploy.client",
    )
    source: Source


class MetricName(Fact):
    """Name of a metric or label of dcgm-exporter, and the first version of the exporter that uses the name."""

    since: str
    field: str
    factor: float = Field(default=1, description="factor that converts the value to the base unit")


class ExporterMetric(Fact):
    """A metric or label of dcgm-exporter."""

    name: str
    type: Literal["gauge", "counter", "label"]
    help: str
    names: tuple[MetricName, ...] = Field(min_length=1, description="the oldest first")
    until: str | None = Field(default=None, description="first exporter version that does not have the metric")
    source: Source


XidCodes = Annotated[str, Field(pattern=r"^(\d+(-\d+)?( \d+(-\d+)?)*)?$")]
"""Xid error codes and ranges of codes, such as `8 11 39-41`."""


def xid_codes(text: XidCodes) -> tuple[int, ...]:
    """Return all codes in a string of codes and ranges."""
    ranges = (part.partition("-") for part in text.split())
    return tuple(code for first, _, last in ranges for code in range(int(first), int(last or first) + 1))


class XidClass(Fact):
    """Xid errors of NVIDIA's driver that have the same remedy."""

    name: str
    codes: XidCodes = Field(
        description="codes of the class; the first class without codes is for all codes that no class lists; "
        "other classes without codes are only for errors with one of their texts"
    )
    remedy: str
    ends: Literal["", "hour", "reset", "boot"] = Field(
        default="", description="event that clears the fault, such as a reboot; empty if no action is needed"
    )
    processes: int | None = Field(
        default=None,
        ge=2,
        description="number of failed processes per hour on one GPU that suggests a broken GPU",
    )
    alert: str = Field(default="", description="empty: none")
    severity: Literal["critical", "warning", "info"] = "info"
    meanings: Mapping[XidCodes, str] = Field(
        default_factory=dict[str, str], description="meanings of the codes, in our own words"
    )
    source: Source


class XidText(Fact):
    """Text in the kernel log. An Xid error with this text belongs to a different class than other errors with its
    code.
    """

    name: str
    codes: XidCodes
    text: str
    xid_class: str = Field(description="an XidClass.name")
    ends_faults: bool = Field(
        default=False, description="whether the text means that earlier faults of the GPU are over"
    )
    source: Source


class KubernetesPlatform(Fact):
    """A platform that provides Kubernetes versions, and what happens to a cluster when standard support ends."""

    name: Literal["kubernetes", "sandbox", Service]
    title: str
    dates_of: str | None = Field(
        default=None, description="name of the platform whose dates also apply to this platform"
    )
    only: tuple[str, ...] = Field(
        default=(), description="available minor versions, or empty for all versions with dates"
    )
    order: str = Field(description="the steps of a cluster upgrade, in order")
    replaces_nodes: bool = Field(
        description="whether the nodes are drained during an upgrade, by the program, the cloud or their owner"
    )
    usd_per_hour: float | None = Field(default=None, description="fee of a cluster in standard support, in USD/h")
    extended_usd_per_hour: float | None = Field(
        default=None, description="fee of a cluster in extended support, in USD/h"
    )
    after_standard: str = Field(description="what happens at the end of standard support")
    new_cluster: str | None = Field(
        default=None,
        description="why creating a cluster fails after the end of standard support, and the fix, or None if "
        "creating it succeeds or planning already refuses it",
    )
    source: Source


class KubernetesVersion(Fact):
    """End of support of a Kubernetes minor version, by platform."""

    platform: str = Field(description="a KubernetesPlatform.name")
    version: Annotated[str, Field(pattern=r"^1\.\d{2}$")]
    standard_until: datetime.date
    extended_until: datetime.date | None = Field(
        default=None, description="None if the date is not known or the platform has no extended support"
    )
    source: Source


class DriverBranch(Fact):
    """End of NVIDIA's support for a branch of its data center driver."""

    branch: int
    kind: Literal["long-term support", "production", "new feature"]
    until: datetime.date | None = Field(default=None, description="None: not known")
    ended: bool = Field(default=False, description="whether support has ended at an unknown date")
    source: Source


class ContainerImage(Fact):
    """A container image, pinned by digest. If no digest can be known, the image is pinned by a release tag, and
    the entry contains the reason.
    """

    name: str
    reference: Annotated[str, Field(pattern=r"^[^\s:@]+(/[^\s:@]+)*(:[\w.-]+)?(@sha256:[0-9a-f]{64})?$")]
    undigested: str | None = Field(
        default=None, description="reason why there is no digest, or None if there is one"
    )
    pulled: bool = Field(default=True, description="false if the image is part of the node image")
    source: Source

    @model_validator(mode="after")
    def _pinned(self) -> ContainerImage:
        if ("@sha256:" in self.reference) == (self.undigested is not None):
            raise ValueError(f"{self.reference}: needs either a digest, or a reason why there is none")
        if "@" not in self.reference and self.reference.rpartition(":")[2] in {self.reference, "", "latest"}:
            raise ValueError(f"{self.reference}: needs the tag of a release")
        return self


class ServiceQuota(Fact):
    """A quota in AWS Service Quotas, and the instances that count against it."""

    name: str
    service: str
    code: Annotated[str, Field(pattern=r"^L-[0-9A-F]{8}$")]
    spot: bool = False
    types: str = Field(
        default="", description="regular expression for the instance types, or empty if no instance counts"
    )
    patterns: tuple[str, ...] = Field(default=(), description="the same instance types, as EC2 filters")
    default: int | None = Field(
        default=None, description="value in every new account, or None if no code needs it"
    )
    source: Source


class ZoneWithoutControlPlanes(Fact):
    """An AWS zone in which EKS does not accept subnets for a control plane."""

    zone_id: Annotated[str, Field(pattern=r"^[a-z0-9]+-az\d$")]
    region: str
    source: Source


class UnsupportedMachineType(Fact):
    """Machine types of a cloud that the program refuses, with the reason and alternatives."""

    name: str = Field(description="description, such as `G4 with a part of a GPU`")
    types: str = Field(description="regular expression for the names of the machine types")
    why: str
    instead: str = Field(description="machine types to use instead")
    source: Source


class KernelProfile(Fact):
    """Kernel settings that NVIDIA recommends for nodes that are used for one purpose: training or inference."""

    name: str
    sysctls: Mapping[str, str]
    because: str
    source: Source


class SettableSysctls(Fact):
    """Kernel settings that a platform allows users to change. A platform without an entry has no restrictions."""

    platform: str
    sysctls: tuple[str, ...]
    limits: Mapping[str, tuple[int, int]] = Field(
        default_factory=dict[str, tuple[int, int]],
        description="lowest and highest value that the platform accepts, by setting; other settings have no "
        "limits",
    )
    source: Source


class GkeFeature(Fact):
    """A feature of GKE, and the first GKE version that has it."""

    name: str
    minimum: Annotated[str, Field(pattern=r"^1\.\d+\.\d+-gke\.\d+$")]
    source: Source


class RecipeComponent(Fact):
    """A component of NVIDIA's AICR recipes, and how the program provides it."""

    name: str
    handled: str = Field(description="when the component is installed, or why it is not installed")
    source: Source


class ConformanceRequirement(Fact):
    """A requirement of the CNCF's Kubernetes AI Conformance, in the original words."""

    area: str
    id: str
    level: Literal["MUST", "SHOULD"]
    description: str


class AiConformance(Fact):
    """The requirements of the conformance programme for one Kubernetes version."""

    version: Annotated[str, Field(pattern=r"^1\.\d{2}$")]
    source: Source
    requirements: tuple[ConformanceRequirement, ...] = Field(min_length=1)


Measure = Literal["host-device", "device-device", "all-reduce", "all-reduce-nodes"]


class BurnInLimit(Fact):
    """The minimum bandwidth that healthy machines of one kind reach in an active check."""

    name: str
    measure: Measure
    gpus: tuple[str, ...] = Field(
        default=(), description="GPU models that are connected by NVLink; set either this or `families`"
    )
    families: tuple[str, ...] = Field(
        default=(), description="families of machine types; set either this or `gpus`"
    )
    gpus_per_node: int | None = Field(default=None, ge=1, description="GPUs per machine, or None for any number")
    gb_per_second: float = Field(gt=0, description="bandwidth in 10^9 bytes per second")
    source: Source

    @model_validator(mode="after")
    def _one_of(self) -> BurnInLimit:
        if bool(self.gpus) == bool(self.families):
            raise ValueError(f"{self.name}: needs either gpus or families")
        return self


class CatalogFile(Fact):
    """A YAML file of the catalogue."""

    gpus: tuple[Gpu, ...] = ()
    vendors: tuple[Vendor, ...] = ()
    machine_types: tuple[MachineType, ...] = ()
    node_daemonsets: tuple[NodeDaemonSet, ...] = ()
    operator_releases: tuple[OperatorRelease, ...] = ()
    exporter_metrics: tuple[ExporterMetric, ...] = ()
    xid_classes: tuple[XidClass, ...] = ()
    xid_texts: tuple[XidText, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    families: tuple[Family, ...] = ()
    infiniband_series: tuple[InfinibandSeries, ...] = ()
    fabric_pods: tuple[FabricPods, ...] = ()
    node_images: tuple[NodeImage, ...] = ()
    cloud_resources: tuple[CloudResource, ...] = ()
    eks_addons: tuple[EksAddon, ...] = ()
    eks_registries: tuple[EksRegistry, ...] = ()
    charts: tuple[Chart, ...] = ()
    controllers: tuple[Controller, ...] = ()
    limits: tuple[Limit, ...] = ()
    gke_features: tuple[GkeFeature, ...] = ()
    kernel_settings: tuple[KernelProfile, ...] = ()
    settable_sysctls: tuple[SettableSysctls, ...] = ()
    pool_properties: tuple[PoolProperty, ...] = ()
    drain_limits: tuple[DrainLimit, ...] = ()
    gpu_quotas: tuple[GpuQuota, ...] = ()
    sales: tuple[Sale, ...] = ()
    service_quotas: tuple[ServiceQuota, ...] = ()
    no_control_plane_zones: tuple[ZoneWithoutControlPlanes, ...] = ()
    unsupported_machine_types: tuple[UnsupportedMachineType, ...] = ()
    price_lists: tuple[PriceList, ...] = ()
    part_prices: tuple[PartPriceList, ...] = ()
    offerings: tuple[Offering, ...] = ()
    kubernetes_platforms: tuple[KubernetesPlatform, ...] = ()
    kubernetes_versions: tuple[KubernetesVersion, ...] = ()
    driver_branches: tuple[DriverBranch, ...] = ()
    recipe_components: tuple[RecipeComponent, ...] = ()
    ai_conformance: tuple[AiConformance, ...] = ()
    burn_in_limits: tuple[BurnInLimit, ...] = ()
