"""What a node should look like: for the node agent (what NVML says) and for the cluster checks (Kubernetes).

Planning makes these from the Plan; the node agent reads the JSON form with its own parser, for it has only
the standard library (`validators/agent/expectations.py`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from gpu_platform.catalog import Catalog, MachineType

VERSION: Final = 1
RESOURCE_SLICES: Final = "ResourceSlices"  # key of `NodeExpectation.sources` for what the DRA driver publishes
MEMORY_TOLERANCE_PERCENT: Final = 1.5  # reserved pages and ECC shift NVML's total by about that much

MigLayout = Mapping[str, int]  # instances by MIG profile; empty: no instances


@dataclass(frozen=True, slots=True)
class Expectation:
    """One expected value of one check, and where it comes from."""

    value: Any
    source: str
    tolerance_percent: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; `tolerance_percent` only where there is one."""
        form: dict[str, Any] = {"value": self.value, "source": self.source}
        if self.tolerance_percent is not None:
            form["tolerance_percent"] = self.tolerance_percent
        return form


@dataclass(frozen=True, slots=True)
class Expectations:
    """What the node agent holds one node against: expectations by check id."""

    pool: str
    machine_type: str
    expect: Mapping[str, Expectation]

    @property
    def hash(self) -> str:
        """Twelve hex digits that change with anything said here; a report with another hash is stale."""
        return expectations_hash(self._content())

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form that the node agent reads."""
        content = self._content()
        return {**content, "hash": expectations_hash(content)}

    def expecting(
        self, check: str, value: object, source: str, *, tolerance_percent: float | None = None
    ) -> Expectations:
        """Return the same with one expectation added or replaced."""
        entry = Expectation(value, source, tolerance_percent)
        return replace(self, expect=MappingProxyType({**self.expect, check: entry}))

    def _content(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "pool": self.pool,
            "machine_type": self.machine_type,
            "expect": {check: entry.to_json() for check, entry in sorted(self.expect.items())},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeExpectation:
    """What a pool's `v1/Node` objects should say.

    `allocatable` holds every `nvidia.com/*` resource and its count (any other one is unexpected); `taints`
    are in the form of the API. `sources` says where an expectation comes from, by resource name, label key
    or taint key. `gpu_devices`: whole GPUs that the DRA driver publishes in ResourceSlices, with instances of
    `mig_profiles` beside them; None: it publishes nothing for the node.
    """

    pool: str
    allocatable: Mapping[str, int]
    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, str]] = ()
    gpu_devices: int | None = None
    mig_profiles: Sequence[str] = ()
    sources: Mapping[str, str] = field(default_factory=dict[str, str])


def expectations_hash(content: Mapping[str, Any]) -> str:
    """Return the hash of an Expectations JSON, whether or not `content` carries one already."""
    rest = {key: value for key, value in content.items() if key != "hash"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def expectations_for_machine(
    machine: MachineType,
    catalog: Catalog,
    *,
    pool: str = "",
    driver_version: str | None = None,
    driver_source: str = "",
    mig_layouts: Sequence[MigLayout] | None = None,
    mig_source: str = "",
) -> Expectations:
    """Return what a node of a machine type should look like, as far as the catalogue knows it.

    `driver_version` is the exact driver; None expects only the GPU's first driver branch. `mig_layouts` has
    one entry per GPU, an empty one where MIG is off; None expects nothing about MIG. What the catalogue does
    not know is not expected.
    """
    gpu = catalog.gpu_of(machine)
    of_machine = f"machine type {machine.name} ({machine.source})"
    of_gpu = f"GPU {gpu.model} of machine type {machine.name} ({gpu.source})"
    always = "always: a healthy GPU"
    expect: dict[str, Expectation] = {
        "gpu-count": Expectation(machine.gpu_count, of_machine),
        "gpu-product": Expectation(gpu.product, of_gpu),
        "gpu-memory": Expectation(gpu.memory_mib, of_gpu, MEMORY_TOLERANCE_PERCENT),
        "driver-minimum": Expectation(str(gpu.minimum_driver_branch), of_gpu),
        "nvlink-count": Expectation(machine.nvlinks_per_gpu, of_machine),
        "throttle-reasons": Expectation(True, always),
        "temperature": Expectation(True, always),
    }
    if gpu.ecc:
        expect["ecc"] = Expectation(True, of_gpu)
    if gpu.row_remapping:
        expect["row-remapping"] = Expectation(True, of_gpu)
    if machine.nvlinks_per_gpu and machine.arch == "amd64":
        # On an HGX baseboard the link is the GPU's own; a card's slot may be older or x8, and a superchip's
        # GPU hangs on its CPU by NVLink-C2C.
        expect["pcie-width"] = Expectation(gpu.pcie_width, of_gpu)
        expect["pcie-generation"] = Expectation(gpu.pcie_generation, of_gpu)
    if machine.numa_nodes is not None:
        expect["numa-nodes"] = Expectation(list(machine.numa_nodes), of_machine)
    if driver_version is not None:
        expect["driver-version"] = Expectation(driver_version, driver_source)
    if mig_layouts is not None:
        expect.update(_mig(mig_layouts, mig_source))
    return Expectations(pool, machine.name, MappingProxyType(expect))


def _mig(layouts: Sequence[MigLayout], source: str) -> dict[str, Expectation]:
    """Return the MIG expectations; where only some GPUs have instances, the layout alone says it."""
    sliced = [bool(layout) for layout in layouts]
    expect: dict[str, Expectation] = {}
    if len(set(sliced)) == 1:
        expect["mig-mode"] = Expectation(sliced[0], source)
    if any(sliced):
        expect["mig-instances"] = Expectation([dict(layout) for layout in layouts], source)
    return expect
