"""Reads the catalogue's YAML files once and indexes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType

import yaml

from gpu_platform.catalog.models import CatalogFile, Gpu, Image, MachineType, OperatorRelease


@dataclass(frozen=True, slots=True)
class Catalog:
    """Every fact, by name. Immutable; made by `load_catalog`."""

    gpus: Mapping[str, Gpu]
    machine_types: Mapping[str, MachineType]
    operator_releases: Mapping[str, OperatorRelease]
    images: Mapping[str, Image]

    def gpu_of(self, machine: MachineType) -> Gpu:
        """Return the GPU model of a machine type."""
        return self.gpus[machine.gpu]

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
    gpus: dict[str, Gpu] = {}
    machines: dict[str, MachineType] = {}
    releases: dict[str, OperatorRelease] = {}
    images: dict[str, Image] = {}
    folder = resources.files("gpu_platform.catalog") / "facts"
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if not file.name.endswith(".yaml"):
            continue
        facts = CatalogFile.model_validate(yaml.load(file.read_text("utf-8"), Loader=yaml.CSafeLoader))
        gpus.update((gpu.model, gpu) for gpu in facts.gpus)
        machines.update((machine.name, machine) for machine in facts.machine_types)
        releases.update((release.version, release) for release in facts.operator_releases)
        images.update((image.name, image) for image in facts.images)
    return Catalog(
        MappingProxyType(gpus), MappingProxyType(machines), MappingProxyType(releases), MappingProxyType(images)
    )
