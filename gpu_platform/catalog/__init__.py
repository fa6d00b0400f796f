"""Facts about GPUs, machine types and operator releases, each with source and date."""

from gpu_platform.catalog._load import Catalog, load_catalog
from gpu_platform.catalog.models import Gpu, Image, MachineType, Mig, MigProfile, OperatorRelease, Source

__all__ = [
    "Catalog",
    "Gpu",
    "Image",
    "MachineType",
    "Mig",
    "MigProfile",
    "OperatorRelease",
    "Source",
    "load_catalog",
]
