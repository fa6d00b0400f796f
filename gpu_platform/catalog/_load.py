"""Reads the catalogue's YAML files once and indexes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType

import yaml

from gpu_platform.catalog.models import (
    AwsFamily,
    CatalogFile,
    Chart,
    EksAddon,
    GcpFamily,
    GkeFeature,
    Gpu,
    GpuQuota,
    Image,
    MachineType,
    NodeImage,
    OperatorRelease,
    PoolProperty,
)


@dataclass(frozen=True, slots=True)
class Catalog:
    """Every fact, by name. Immutable; made by `load_catalog`."""

    gpus: Mapping[str, Gpu]
    machine_types: Mapping[str, MachineType]
    operator_releases: Mapping[str, OperatorRelease]
    images: Mapping[str, Image]
    aws_families: Mapping[str, AwsFamily]
    gcp_families: Mapping[str, GcpFamily]
    node_images: Mapping[tuple[str, str], NodeImage]  # by provider (aws, gcp) and family
    eks_addons: Mapping[str, EksAddon]
    charts: Mapping[str, Chart]
    gke_features: Mapping[str, GkeFeature]
    pool_properties: Mapping[tuple[str, str], PoolProperty]  # by platform (eks, karpenter, gke, sandbox) and name
    gpu_quotas: Mapping[str, GpuQuota]

    def gpu_of(self, machine: MachineType) -> Gpu:
        """Return the GPU model of a machine type."""
        return self.gpus[machine.gpu]

    def aws_family(self, machine: MachineType) -> AwsFamily:
        """Return the EC2 family of an instance type: `p5` of `p5.48xlarge`."""
        return self.aws_families[machine.name.partition(".")[0]]

    def gcp_family(self, machine: MachineType) -> GcpFamily:
        """Return the family of a Compute Engine machine type: `a3-megagpu` of `a3-megagpu-8g`."""
        return self.gcp_families[machine.name.rpartition("-")[0]]

    def gpu_quota(self, machine: MachineType, *, spot: bool) -> GpuQuota | None:
        """Return the quota that machines of a type count against, or None where its name is not known."""
        of_aws, of_gcp = machine.name.partition(".")[0], machine.name.rpartition("-")[0]
        wanted = (machine.provider, "spot" if spot else "on-demand")
        return next(
            (
                quota
                for quota in self.gpu_quotas.values()
                if (quota.provider, quota.capacity) == wanted
                and (of_aws if machine.provider == "aws" else of_gcp) in quota.families
            ),
            None,
        )

    def find_gpu(self, spelling: str) -> Gpu | None:
        """Return the GPU that `spelling` names, as NVML, feature discovery or common use spell it.

        Case, spaces, dashes and underscores do not matter; a leading `NVIDIA` is optional.
        """
        wanted = _fold(spelling)
        for gpu in self.gpus.values():
            if wanted in {_fold(name) for name in (gpu.model, gpu.product, *gpu.aliases)}:
                return gpu
        return None


def _fold(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name.casefold()).removeprefix("nvidia")


@cache
def load_catalog() -> Catalog:
    """Read `facts/*.yaml`. The result is shared and immutable."""
    folder = resources.files("gpu_platform.catalog") / "facts"
    files = [
        CatalogFile.model_validate(yaml.load(file.read_text("utf-8"), Loader=yaml.CSafeLoader))
        for file in sorted(folder.iterdir(), key=lambda entry: entry.name)
        if file.name.endswith(".yaml")
    ]
    return Catalog(
        gpus=MappingProxyType({each.model: each for file in files for each in file.gpus}),
        machine_types=MappingProxyType({each.name: each for file in files for each in file.machine_types}),
        operator_releases=MappingProxyType({one.version: one for file in files for one in file.operator_releases}),
        images=MappingProxyType({each.name: each for file in files for each in file.images}),
        aws_families=MappingProxyType({each.name: each for file in files for each in file.aws_families}),
        gcp_families=MappingProxyType({each.name: each for file in files for each in file.gcp_families}),
        node_images=MappingProxyType(
            {(each.provider, each.family): each for file in files for each in file.node_images}
        ),
        eks_addons=MappingProxyType({each.name: each for file in files for each in file.eks_addons}),
        charts=MappingProxyType({each.name: each for file in files for each in file.charts}),
        gke_features=MappingProxyType({each.name: each for file in files for each in file.gke_features}),
        pool_properties=MappingProxyType(
            {(each.platform, each.name): each for file in files for each in file.pool_properties}
        ),
        gpu_quotas=MappingProxyType({each.name: each for file in files for each in file.gpu_quotas}),
    )
