"""Facts about GPUs, machine types and operator releases, each with source and date."""

from gpu_platform.catalog._load import Catalog, load_catalog, read_catalog
from gpu_platform.catalog.models import (
    AwsFamily,
    Chart,
    ContainerImage,
    EksAddon,
    GcpFamily,
    GkeFeature,
    Gpu,
    GpuQuota,
    MachineType,
    Mig,
    MigProfile,
    NodeImage,
    OperatorRelease,
    PoolProperty,
    Source,
)

__all__ = [
    "AwsFamily",
    "Catalog",
    "Chart",
    "ContainerImage",
    "EksAddon",
    "GcpFamily",
    "GkeFeature",
    "Gpu",
    "GpuQuota",
    "MachineType",
    "Mig",
    "MigProfile",
    "NodeImage",
    "OperatorRelease",
    "PoolProperty",
    "Source",
    "load_catalog",
    "read_catalog",
]
