"""Families of machine types, according to each vendor's naming scheme."""

from __future__ import annotations

import re
from typing import Final, assert_never

from gpu_platform.catalog.models import MachineType, VendorName

_AZURE_VCPUS: Final = re.compile(r"^Standard_([A-Z]+)\d+(-\d+)?")


def family_name(vendor: VendorName, machine_type: str) -> str:
    """Return the family of a machine type, such as `p5` for `p5.48xlarge` and `a3-megagpu` for `a3-megagpu-8g`.

    A variant with or without local SSDs belongs to the same family: `c3-standard` for `c3-standard-8-lssd`,
    `a3-megagpu` for `a3-megagpu-8g-nolssd`. On Azure, the family is the series, which is the name of the size
    without its number of vCPUs: `NDisr_H100_v5` for `Standard_ND96isr_H100_v5`. On-premises machines have no
    families, so each machine type is its own family.
    """
    match vendor:
        case "aws":
            return machine_type.partition(".")[0]
        case "gcp":
            return machine_type.removesuffix("-nolssd").removesuffix("-lssd").rpartition("-")[0]
        case "azure":
            return _AZURE_VCPUS.sub(r"\1", machine_type)
        case "on-prem":
            return machine_type
        case _:
            assert_never(vendor)


def family_of(machine: MachineType) -> str:
    """Return the family of a machine type in the catalogue. `family_name` defines the format."""
    return family_name(machine.vendor, machine.name)
