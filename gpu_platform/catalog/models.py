"""Models of the catalogue's entries: GPUs, machine types, node images, charts, prices, quotas, operator releases.

Facts live as YAML under `facts/`, each entry with its source and the date it was read.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Annotated, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

CloudVendor = Literal["aws", "gcp"]
VendorName = Literal[CloudVendor, "on-prem"]
"""Who sells a machine type. The stack file's `provider` is the Kubernetes service on it: eks, gke, existing."""


class Fact(BaseModel):
    """Base of all catalogue entries: immutable, and no field that is not declared."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")


class Source(Fact):
    """Where a fact comes from and when it was read."""

    title: str
    url: str = ""
    date: datetime.date

    def __str__(self) -> str:
        return f"{self.title}, {self.date.isoformat()}"


class MigProfile(Fact):
    """One MIG profile of one GPU model.

    A GPU instance of the profile takes `compute_slices` of the GPU's compute slices and a run of
    `memory_slices` memory slices that begins at one of `starts` (memory-slice indices).
    `max_instances` is the most that fit on one GPU. `media_engines`: a variant with the engines of which a GPU
    has one (`+me`, `+me.all`), so once per GPU. `decoders`: of those that the GPU counts, see `Mig.decoders`.
    """

    name: str
    compute_slices: int = Field(ge=1)
    memory_slices: int = Field(ge=1)
    memory_mib: int = Field(ge=1, description="memory of one instance as NVML reports it, MiB; nominal")
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
        description="NVDECs to give away, each with an NVENC and a JPEG engine, where profiles differ in how many "
        "they take; None: what fits by slices fits",
    )
    # Pairs, since a model with a dict has no hash, and layouts are searched once a model.
    balanced: Annotated[tuple[tuple[str, int], ...], BeforeValidator(_pairs)] | None = Field(
        default=None, description="mig-parted's `all-balanced`: profile to count; None: it has none for this GPU"
    )
    source: Source

    def profile(self, name: str) -> MigProfile | None:
        """Return the profile of that exact name, or None."""
        return next((profile for profile in self.profiles if profile.name == name), None)

    def named_layout(self, name: str) -> Mapping[str, int] | None:
        """Return the layout that mig-parted names `all-balanced` or `all-<profile>`, or None if it has none.

        In these names `+` may be written as `.`: `all-1g.10gb.me`. Source: mig-parted v0.15.0, pkg/mig/builder.
        """
        if name == "all-balanced":
            return None if self.balanced is None else dict(self.balanced)
        wanted = name.removeprefix("all-").replace("+", ".")
        found = next((each for each in self.profiles if each.name.replace("+", ".") == wanted), None)
        return None if found is None else {found.name: found.max_instances}


class Gpu(Fact):
    """One GPU model."""

    model: str = Field(description="our short name: a100-80gb, h100-80gb, t4")
    product: str = Field(description="NVML's product name: NVIDIA A100-SXM4-80GB")
    aliases: tuple[str, ...] = ()
    pci_id: str | None = Field(
        default=None,
        pattern=r"^0x[0-9A-F]{8}$",
        description="PCI device and vendor id as mig-parted's device-filter has it: 0x20B210DE; None: not known",
    )
    architecture: Literal["volta", "turing", "ampere", "ada", "hopper", "blackwell"]
    compute_capability: str
    memory_mib: int = Field(description="total memory as NVML reports it, MiB")
    tensor_tflops: float | None = Field(
        default=None, gt=0, description="dense bfloat16 throughput of its tensor cores, TFLOP/s; None: not known"
    )
    ecc: bool = Field(description="ECC memory, on by default")
    row_remapping: bool = Field(description="Ampere and newer; older GPUs retire pages")
    pcie_generation: int
    pcie_width: int = 16
    slowdown_celsius: int | None = Field(default=None, description="hardware slowdown temperature, °C")
    minimum_driver_branch: int = Field(description="first driver branch that supports the GPU: 450")
    maximum_driver_branch: int | None = Field(
        default=None, description="last driver branch that supports the GPU; None: newest branches still do"
    )
    mig: Mig | None = None
    source: Source

    @property
    def product_label(self) -> str:
        """The value of `nvidia.com/gpu.product`: NVML's name with spaces as dashes."""
        return self.product.replace(" ", "-")


class MachineType(Fact):
    """One machine type: with whole GPUs, or without GPUs, for CPU pools."""

    name: str
    vendor: VendorName
    gpu: str | None = Field(default=None, description="a Gpu.model; None: a machine without GPUs")
    gpu_count: int = Field(default=0, ge=0)
    vcpu: int
    memory_mib: int
    arch: Literal["amd64", "arm64"] = "amd64"
    nvlinks_per_gpu: int = Field(
        default=0, description="active NVLinks of each GPU; depends on the machine type, not on the GPU model"
    )
    numa_nodes: tuple[int, ...] | None = Field(
        default=None, description="NUMA node of each GPU in index order; None: not known, or hidden by the VM"
    )
    rdma_interfaces: int = Field(default=0, description="EFA interfaces on AWS, GPU NICs on GCP")
    default_enis: int | None = Field(
        default=None,
        ge=1,
        description="network interfaces of EC2's default network card; None elsewhere, or not in nodeadm's table",
    )
    ips_per_eni: int | None = Field(
        default=None, ge=2, description="IPv4 addresses of each network interface on EC2; None elsewhere"
    )
    local_nvme_gb: int = 0
    local_disk_gb: int | None = Field(
        default=None, description="capacity of each local disk, GB; None: 375 on GCP, not needed elsewhere"
    )
    accelerator_label: str | None = Field(default=None, description="GKE's cloud.google.com/gke-accelerator value")
    verified: bool = True
    source: Source

    @property
    def has_gpus(self) -> bool:
        """Whether the machine has GPUs; a pool of machines without GPUs is a CPU pool."""
        return self.gpu is not None

    @model_validator(mode="after")
    def _gpus(self) -> MachineType:
        if (self.gpu is None) != (self.gpu_count == 0):
            raise ValueError(f"{self.name}: gpu and gpu_count together, or neither for a machine without GPUs")
        return self


CapacityType = Literal["on-demand", "spot", "reservation", "capacity-block", "flex-start"]


class Sale(Fact):
    """How a cloud sells machine types that it does not sell on demand."""

    name: str
    types: str = Field(description="machine types, as a regular expression")
    sold_as: tuple[CapacityType, ...] = Field(min_length=1, description="types of `capacity` of a pool")
    source: Source


class NvlinkDomain(Fact):
    """Nodes whose GPUs one NVLink fabric connects."""

    nodes: tuple[int, ...] = Field(min_length=1, description="nodes of one domain, by the sizes that are sold")
    topology: str | None = Field(
        default=None, description="accelerator topology of Compute Engine's workload policy: 1x72; None elsewhere"
    )
    source: Source

    @property
    def most_nodes(self) -> int:
        """Nodes of the largest domain."""
        return max(self.nodes)


class AwsFamily(Fact):
    """What all instance types of one EC2 family share: `p5`, `g6e`."""

    name: str
    first_efa_card: int = Field(default=0, description="index of the first network card that carries EFA")
    efa_only: bool = Field(default=True, description="EFA-only interfaces on cards after the first")
    efa_only_beside_primary: bool = Field(
        default=True, description="card 0 takes an EFA-only interface (device 1) beside the plain one (device 0)"
    )
    secondary_device_index: int = Field(default=1, description="device index of EFA interfaces on cards above 0")
    cluster_placement: bool = Field(default=True, description="cluster placement groups")
    capacity_blocks: bool = Field(default=False, description="EC2 Capacity Blocks for ML")
    instances_end_minutes: int = Field(
        default=30, description="how long before the end of a block no instance may run: EC2 ends them, or says so"
    )
    efa_cards: tuple[int, ...] = Field(
        default=(), description="indexes of the network cards with EFA where they are not consecutive"
    )
    nvlink_domain: NvlinkDomain | None = None
    mig: bool = Field(default=True, description="MIG with the driver of EKS' own images")
    source: Source


class GcpFamily(Fact):
    """What all machine types of one Compute Engine GPU family share: `a3-megagpu`, `g2-standard`."""

    name: str
    fabric: Literal["none", "tcpx", "tcpxo", "rdma"] = Field(description="GPUDirect stack of the GPU NICs")
    compact_placement: bool = Field(default=True, description="compact placement policies")
    compact_with_flex_start: bool = False
    compact_max_nodes: int | None = Field(default=None, description="most nodes of one policy; None: not known")
    nvlink_domain: NvlinkDomain | None = None
    boot_disk_types: tuple[str, ...] = Field(description="the default first")
    minimum_gke: str | None = Field(default=None, description="first GKE version that has it: 1.27.7-gke.1121000")
    fabric_broken_from: str | None = Field(
        default=None, description="first GKE version whose nodes cannot use `fabric`: 1.34.1-gke.1431000"
    )
    source: Source


class FabricDaemon(Fact):
    """The sidecar that receives a fabric's data, as its vendor publishes it.

    It writes host paths as root, so that all of it is given: an own command would have the node.
    """

    name: str = Field(description="of the container")
    annotation: str = Field(description="key of the annotation that gives it devices")
    image: str = Field(description="repository, without tag and digest")
    release: str = Field(description="name in `images`: that of the repository with which jobs start it")
    command: tuple[str, ...]
    arguments: tuple[str, ...] = Field(default=(), description="with which jobs start it; `script` allows others")
    script: str | None = Field(
        default=None, description="its only argument, as a regular expression (RE2); None: it has no arguments"
    )
    capabilities: tuple[str, ...] = Field(description="added ones")
    mounts: dict[str, str] = Field(description="host path by path in the container")
    devices: tuple[str, ...] = Field(description="files of /dev that the device injector of GKE gives it")
    cpu: str = Field(description="CPUs that it requests, a part of those of the pod")
    memory: str = Field(description="memory that it requests, a part of that of the pod")


class FabricPods(Fact):
    """What pods need of the node to use the GPU NICs of a fabric, by the vendor's test pods."""

    name: Literal["tcpx", "tcpxo", "rdma"] = Field(description="GPUDirect stack, as `fabric` of a family")
    daemon: FabricDaemon | None = Field(default=None, description="None: the pods need no sidecar")
    read_only: tuple[str, ...] = Field(description="host paths that containers may read")
    writable: tuple[str, ...] = Field(default=(), description="host paths that containers may write")
    mounts: dict[str, str] = Field(description="host path by path in the container that trains")
    library_path: tuple[str, ...] = Field(description="directories of it with NCCL's plugin, for LD_LIBRARY_PATH")
    profile: str | None = Field(
        default=None, description="script of it that sets NCCL's variables; None: they are all in `env`"
    )
    env: dict[str, str] = Field(default_factory=dict, description="environment variables of the container")
    first_interface: int = Field(description="number of the pod's interface on the first GPU network, eth<number>")
    test_images: tuple[str, ...] = Field(description="repositories of the vendor's test pods, which run as root")
    test_capabilities: tuple[str, ...] = Field(default=(), description="that they add")
    source: Source


class LaterDriver(Fact):
    """A second driver of a node image, which instances of some families load at their first boot."""

    families: tuple[str, ...] = Field(min_length=1, description="machine families: g7")
    branch: int = Field(description="branch of the driver, at least: 595")
    first_release: str = Field(description="first release that has it, as Karpenter names it: v20260917")
    source: Source


class NodeImage(Fact):
    """A family of node images of one cloud, and what it includes of NVIDIA's stack."""

    family: Literal["al2023", "bottlerocket", "cos", "ubuntu"]
    vendor: CloudVendor
    image_types: dict[Literal["amd64", "arm64"], str] = Field(description="EKS ami_type or GKE image_type")
    plain_image_types: dict[Literal["amd64", "arm64"], str] | None = Field(
        default=None, description="the same of machines without GPUs; None: image_types are theirs, too"
    )
    includes: tuple[Literal["driver", "toolkit", "device-plugin"], ...] = ()
    driver_branch: int | None = Field(default=None, description="branch of the driver that it includes")
    later_drivers: tuple[LaterDriver, ...] = ()
    data_device: str | None = Field(default=None, description="device name of the disk that pods' data are on")
    release: str | None = Field(
        default=None, description="pinned release, where a program must name one: v20260714"
    )
    first_releases: dict[str, str] = Field(
        default_factory=dict,
        description="by Kubernetes version: the first release with an image of it, as Karpenter names it: v1.61.0",
    )
    source: Source

    def image_type(self, machine: MachineType) -> str:
        """Return the EKS ami_type or GKE image_type of a machine's nodes."""
        plain = None if machine.has_gpus else self.plain_image_types
        return (plain or self.image_types)[machine.arch]


class EksAddon(Fact):
    """An EKS add-on, pinned for each Kubernetes version that a new cluster may have."""

    name: str
    versions: dict[str, str] = Field(
        description="by Kubernetes minor version, 1.36; with the build: v1.20.4-eksbuild.2"
    )
    first_with_efa_only: str | None = Field(
        default=None, description="first version that leaves EFA-only interfaces alone: 1.18.5"
    )
    source: Source


Region = Annotated[str, Field(pattern=r"^[a-z]+(-[a-z]+)+-?\d{1,2}$")]
"""A region of AWS or Google Cloud: us-east-1, us-central1."""


class EksRegistry(Fact):
    """The registry from which nodes in a region pull images of EKS; that of another partition refuses them."""

    region: Region
    account: Annotated[str, Field(pattern=r"^\d{12}$")]
    source: Source


class Chart(Fact):
    """A Helm chart, pinned."""

    name: str
    repository: str = Field(description="https://... or oci://...")
    version: str
    namespace: str = Field(description="where the program installs it; no team may have this name")
    api_ports: tuple[int, ...] = Field(
        default=(), description="of its pods, where the API server calls webhooks and API servers"
    )
    eks_image: str | None = Field(
        default=None, description="repository of its image in the registry of EKS; its values name one region's"
    )
    source: Source


class Limit(Fact):
    """A hard limit of a document that grows with the stack file."""

    name: str
    most: int
    unit: str
    source: Source


class ControllerPod(Fact):
    """What a pod of a controller requests, and the paths of the Helm values that replace these numbers.

    Without a request the limit counts, as for Kubernetes; without both nothing.
    """

    name: str
    cpu_millicores: int | None = None
    memory_mib: int | None = None
    limit_cpu_millicores: int | None = None
    limit_memory_mib: int | None = None
    replicas: int = 1
    replicas_at: str | None = None
    resources_at: str | None = None
    selector_at: tuple[str, ...] = Field(
        default=(), description="paths of its nodeSelector; the first that is set"
    )
    enabled_at: str | None = Field(default=None, description="path of a Helm value that is false without the pod")
    apart: bool = Field(default=False, description="no two replicas run on one node")
    critical: bool = Field(
        default=False, description="other nodes need it to exist or to work, so it waits for none that are added"
    )


class Controller(Fact):
    """Pods that run a number of times in a cluster, by chart, EKS add-on or cloud."""

    name: str
    pods: tuple[ControllerPod, ...]
    source: Source


class PoolProperty(Fact):
    """Effect of a change of one property of a node pool on its nodes."""

    platform: Literal["eks", "karpenter", "gke", "sandbox"]
    name: str = Field(description="as the API of the platform spells it: ami_type")
    effect: Literal["replace", "roll", "shrink"] = Field(
        description="replace: the pool is deleted and recreated; roll: its nodes are, some at a time; "
        "shrink: it loses some of them"
    )
    by_upgrade: bool = Field(
        default=False,
        description="a roll by the upgrade strategy of the pool, which may leave nodes that exist as they are",
    )
    because: str
    source: Source


class DrainLimit(Fact):
    """How long a cloud waits for the pods of a node that it drains, and what it does after that.

    `reclaim`: the time that pods of spot nodes have from the notice of the cloud.
    """

    platform: Literal["eks", "gke"]
    action: Literal["update", "delete", "rebalance", "reclaim"]
    seconds: int = Field(gt=0)
    then: str = Field(description="what happens to the change, or to the pods that are left")
    source: Source


class PriceList(Fact):
    """On-demand list prices of one vendor's machine types, from one source.

    A region that a type has no price for has none: another region's price is never used for it.
    """

    name: str
    vendor: CloudVendor
    source: Source
    usd_per_hour: dict[str, dict[Region, Annotated[float, Field(gt=0, le=100_000)]]] = Field(
        description="by MachineType.name and region: one machine with its GPUs, USD/h, Linux"
    )


class PartPrices(Fact):
    """Prices of the parts of a machine, USD/h."""

    vcpu: float = Field(gt=0, le=100, description="each vCPU")
    memory_gib: float = Field(
        default=0, ge=0, le=100, description="each GiB of memory; 0: part of the vCPU's price"
    )
    local_nvme_gb: float = Field(
        default=0, ge=0, le=100, description="each GB of the local SSDs of the machine type"
    )


class PartPriceList(Fact):
    """On-demand list prices of machine types that cost the sum of their parts, from one source.

    A price says nothing about whether the region offers the machine type.
    """

    name: str
    vendor: CloudVendor
    source: Source
    machine_types: tuple[str, ...] = Field(min_length=1, description="MachineType.name of each, without GPUs")
    regions: dict[Region, PartPrices]


class Offering(Fact):
    """Regions that offer machine types beside those with a list price, and the zones where they are known."""

    name: str
    vendor: CloudVendor
    source: Source
    machine_types: tuple[str, ...] = Field(min_length=1, description="MachineType.name of each")
    regions: dict[Region, tuple[Annotated[str, Field(pattern=r"^([a-z]{3}-\d)?[a-z]$")], ...]] = Field(
        description="zones by region, without its name: a letter, or dfw-2a; none: only the region is known"
    )


class GpuQuota(Fact):
    """A cloud's quota on machines of pools, per account or project and region.

    Most are on machines with GPUs; those without GPUs count by vCPU.
    """

    vendor: CloudVendor
    families: tuple[str, ...] = Field(description="machine families that count: p5, a3-megagpu")
    capacity: Literal["on-demand", "spot"]
    name: str = Field(description="as the cloud's console has it")
    unit: Literal["vCPU", "GPU"]
    source: Source


class OperatorRelease(Fact):
    """One release of the NVIDIA GPU Operator and what it supports."""

    version: str
    date: datetime.date
    status: Literal["supported", "deprecated", "end-of-support"]
    kubernetes: tuple[str, str] = Field(description="lowest and highest minor version: 1.33, 1.36")
    default_driver: str
    drivers: tuple[str, ...]
    toolkit: str
    device_plugin: str
    mig_manager: str
    dcgm_exporter: str = Field(description="DCGM and exporter version: 4.6.0-4.8.3")
    gpu_cluster: bool = Field(default=False, description="has GPUCluster, which manages the DRA driver")
    source: Source


class MetricName(Fact):
    """Name of one of dcgm-exporter's metrics or labels from an exporter version on."""

    since: str
    field: str
    factor: float = Field(default=1, description="times this the value is in the base unit")


class ExporterMetric(Fact):
    """One metric, or label, of dcgm-exporter."""

    name: str
    type: Literal["gauge", "counter", "label"]
    help: str
    names: tuple[MetricName, ...] = Field(min_length=1, description="the oldest first")
    until: str | None = Field(default=None, description="first exporter version that does not have it")
    source: Source


XidCodes = Annotated[str, Field(pattern=r"^(\d+(-\d+)?( \d+(-\d+)?)*)?$")]
"""Codes of Xid errors and ranges of them: `8 11 39-41`."""


def xid_codes(text: XidCodes) -> tuple[int, ...]:
    """Return the single codes of a text of codes and ranges."""
    ranges = (part.partition("-") for part in text.split())
    return tuple(code for first, _, last in ranges for code in range(int(first), int(last or first) + 1))


class XidClass(Fact):
    """Xid errors of NVIDIA's driver after which the same is to be done."""

    name: str
    codes: XidCodes = Field(description="empty: those that are in no other class")
    remedy: str
    ends: Literal["", "hour", "reset", "boot"] = Field(
        default="", description="when the node is in order again; empty: it needs nothing"
    )
    processes: int | None = Field(
        default=None, ge=2, description="how many processes an hour on one GPU may mean that the GPU is broken"
    )
    alert: str = Field(default="", description="empty: none")
    severity: Literal["critical", "warning", "info"] = "info"
    meanings: Mapping[XidCodes, str] = Field(
        default_factory=dict[str, str], description="what codes mean, in our own words"
    )
    source: Source


class XidText(Fact):
    """A text in the kernel's log that puts an Xid error into another class than its code."""

    name: str
    codes: XidCodes
    text: str
    xid_class: str = Field(description="an XidClass.name")
    ends_faults: bool = Field(default=False, description="whether earlier faults of the GPU are over by it")
    source: Source


class KubernetesPlatform(Fact):
    """Who supports Kubernetes versions, and what happens to a cluster after standard support."""

    name: Literal["kubernetes", "sandbox", "eks", "gke"]
    title: str
    dates_of: str | None = Field(default=None, description="the KubernetesPlatform whose dates are its own")
    only: tuple[str, ...] = Field(default=(), description="minor versions that it has; empty: all with dates")
    order: str = Field(description="how a cluster is upgraded: what happens, in which order")
    replaces_nodes: bool = Field(
        description="whether nodes are drained for an upgrade, by the program or its owner"
    )
    usd_per_hour: float | None = Field(default=None, description="fee of a cluster in standard support, USD/h")
    extended_usd_per_hour: float | None = Field(default=None, description="the same in extended support")
    after_standard: str = Field(description="what happens at the end of standard support")
    source: Source


class KubernetesVersion(Fact):
    """End of support of one minor version of Kubernetes, by platform."""

    platform: str = Field(description="a KubernetesPlatform.name")
    version: Annotated[str, Field(pattern=r"^1\.\d{2}$")]
    standard_until: datetime.date
    extended_until: datetime.date | None = Field(
        default=None, description="None: not known, or there is no extended support"
    )
    source: Source


class DriverBranch(Fact):
    """End of NVIDIA's support for one branch of its data center driver."""

    branch: int
    kind: Literal["long-term support", "production", "new feature"]
    until: datetime.date | None = Field(default=None, description="None: not known")
    ended: bool = Field(default=False, description="NVIDIA says that support has ended, and not when")
    source: Source


class ContainerImage(Fact):
    """A container image, pinned by digest; by a release's tag only where no digest can be known, and why."""

    name: str
    reference: Annotated[str, Field(pattern=r"^[^\s:@]+(/[^\s:@]+)*(:[\w.-]+)?(@sha256:[0-9a-f]{64})?$")]
    undigested: str | None = Field(default=None, description="why there is no digest; None: there is one")
    pulled: bool = Field(default=True, description="false: the image is a part of the node image")
    source: Source

    @model_validator(mode="after")
    def _pinned(self) -> ContainerImage:
        if ("@sha256:" in self.reference) == (self.undigested is not None):
            raise ValueError(f"{self.reference}: either a digest, or a reason why there is none")
        if "@" not in self.reference and self.reference.rpartition(":")[2] in {self.reference, "", "latest"}:
            raise ValueError(f"{self.reference}: the tag of a release")
        return self


class ServiceQuota(Fact):
    """A quota of AWS' Service Quotas, and which instances count against it."""

    name: str
    service: str
    code: Annotated[str, Field(pattern=r"^L-[0-9A-F]{8}$")]
    spot: bool = False
    types: str = Field(default="", description="instance types, as a regular expression; empty: it counts none")
    patterns: tuple[str, ...] = Field(default=(), description="the same, as filters of EC2")
    default: int | None = Field(default=None, description="what every account has; None: not needed here")
    source: Source


class ZoneWithoutControlPlanes(Fact):
    """A zone of AWS in which EKS accepts no subnets of a control plane."""

    zone_id: Annotated[str, Field(pattern=r"^[a-z0-9]+-az\d$")]
    region: str
    source: Source


class UnsupportedMachineType(Fact):
    """Machine types of a cloud that the program refuses: why, and what to use."""

    name: str = Field(description="what they are: `G4 with a part of a GPU`")
    types: str = Field(description="their names, as a regular expression")
    why: str
    instead: str = Field(description="machine types that work")
    source: Source


class KernelProfile(Fact):
    """Kernel settings that NVIDIA recommends for what nodes are used for: training, inference."""

    name: str
    sysctls: Mapping[str, str]
    because: str
    source: Source


class SettableSysctls(Fact):
    """The kernel settings that a platform lets others set; a platform that is not among these sets no limits."""

    platform: str
    sysctls: tuple[str, ...]
    source: Source


class GkeFeature(Fact):
    """A feature of GKE, and the first GKE version that has it."""

    name: str
    minimum: Annotated[str, Field(pattern=r"^1\.\d+\.\d+-gke\.\d+$")]
    source: Source


class RecipeComponent(Fact):
    """A component of NVIDIA's AICR recipes, and how the program provides it."""

    name: str
    handled: str = Field(description="installed, when; or not installed, and why")
    source: Source


class ConformanceRequirement(Fact):
    """One requirement of the CNCF's Kubernetes AI Conformance, in its own words."""

    area: str
    id: str
    level: Literal["MUST", "SHOULD"]
    description: str


class AiConformance(Fact):
    """The requirements of one version, which is that of Kubernetes."""

    version: Annotated[str, Field(pattern=r"^1\.\d{2}$")]
    source: Source
    requirements: tuple[ConformanceRequirement, ...] = Field(min_length=1)


Measure = Literal["host-device", "device-device", "all-reduce", "all-reduce-nodes"]


class BurnInLimit(Fact):
    """The least bandwidth that healthy machines of some kind reach in one active check."""

    name: str
    measure: Measure
    gpus: tuple[str, ...] = Field(default=(), description="GPU models connected by NVLink, or `families`")
    families: tuple[str, ...] = Field(default=(), description="families of machine types, or `gpus`")
    gpus_per_node: int | None = Field(default=None, ge=1, description="None: whatever number a machine has")
    gb_per_second: float = Field(gt=0, description="10^9 bytes per second")
    source: Source

    @model_validator(mode="after")
    def _one_of(self) -> BurnInLimit:
        if bool(self.gpus) == bool(self.families):
            raise ValueError(f"{self.name}: either gpus or families")
        return self


class CatalogFile(Fact):
    """One YAML file of the catalogue."""

    gpus: tuple[Gpu, ...] = ()
    machine_types: tuple[MachineType, ...] = ()
    operator_releases: tuple[OperatorRelease, ...] = ()
    exporter_metrics: tuple[ExporterMetric, ...] = ()
    xid_classes: tuple[XidClass, ...] = ()
    xid_texts: tuple[XidText, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    aws_families: tuple[AwsFamily, ...] = ()
    gcp_families: tuple[GcpFamily, ...] = ()
    fabric_pods: tuple[FabricPods, ...] = ()
    node_images: tuple[NodeImage, ...] = ()
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
