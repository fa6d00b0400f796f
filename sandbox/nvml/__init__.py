"""Simulated NVML for the real `pynvml` bindings, configured by a node profile that can contain faults."""

from __future__ import annotations

from types import ModuleType

from gpu_platform.catalog import Catalog, load_catalog
from sandbox.nvml._build import build_node
from sandbox.nvml._hardware import SimulatedGpu, SimulatedNode
from sandbox.nvml._library import Installation, SimulatedLibrary
from sandbox.nvml._mig_tables import ENGINES, InstanceProfile, MigTable, mig_table, mig_tables, read_profiles
from sandbox.nvml._profile import MigLayout, NodeProfile, parse_faults, parse_profile
from sandbox.nvml._recording import pack, unpack
from sandbox.nvml.faults import FAULT_KINDS, Fault, describe_faults

__all__ = [
    "ENGINES",
    "FAULT_KINDS",
    "Fault",
    "Installation",
    "InstanceProfile",
    "MigLayout",
    "MigTable",
    "NodeProfile",
    "SimulatedGpu",
    "SimulatedLibrary",
    "SimulatedNode",
    "build_node",
    "describe_faults",
    "install",
    "mig_table",
    "mig_tables",
    "pack",
    "parse_faults",
    "parse_profile",
    "read_profiles",
    "unpack",
]


def install(
    profile: NodeProfile, *, bindings: ModuleType | None = None, catalog: Catalog | None = None
) -> Installation:
    """Replace the NVML library of `bindings`, by default the installed `pynvml`, with the simulated NVML of
    `profile`.

    Raises BadInput if the profile names a machine type, MIG profile, GPU or link that does not exist.
    """
    if bindings is None:
        import pynvml as bindings
    return Installation(bindings, build_node(profile, catalog or load_catalog()))
