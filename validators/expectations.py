"""Models of a node's expected properties, for the node agent (NVML) and the cluster checks (Kubernetes).

`planning/expectations` creates them; the node agent parses their JSON with its own module
`validators/agent/expectations.py`, because it only has the standard library.
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
RESOURCE_SLICES: Final = "ResourceSlices"  # key of `NodeExpectation.sources` for devices of the DRA driver
MEMORY_TOLERANCE_PERCENT: Final = 1.5  # reserved pages and ECC shift NVML's total by about that much

MigLayout = Mapping[str, int]  # instances by MIG profile; empty: no instances


@dataclass(frozen=True, slots=True)
class Expectation:
    """Expected value of one check of the node agent, and its source."""

    value: Any
    source: str
    tolerance_percent: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, with `tolerance_percent` only if it is set."""
        form: dict[str, Any] = {"value": self.value, "source": self.source}
        if self.tolerance_percent is not None:
            form["tolerance_percent"] = self.tolerance_percent
        return form


@dataclass(frozen=True, slots=True)
class Expectations:
    """Expectations for the node agent on the nodes of one pool, by check id."""

    pool: str
    machine_type: str
    expect: Mapping[str, Expectation]

    @property
    def hash(self) -> str:
        """Twelve hex digits of the content; a report with another hash is outdated."""
        return expectations_hash(self._content())

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form that the node agent reads."""
        content = self._content()
        return {**content, "hash": expectations_hash(content)}

    def expecting(
        self, check: str, value: object, source: str, *, tolerance_percent: float | None = None
    ) -> Expectations:
        """Return a copy with one expectation added or replaced."""
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
    """Expectations for the cluster checks on the `v1/Node` objects of one pool.

    `allocatable` has all expected `nvidia.com/*` resources with their count; `taints` are as in the API. `sources`
    has the source of each expectation by resource name, label key or taint key. `gpu_devices`: number of whole
    GPUs that the DRA driver publishes in ResourceSlices, in addition to instances of `mig_profiles`; None: the
    node does not use DRA."""

    pool: str
    allocatable: Mapping[str, int]
    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, str]] = ()
    gpu_devices: int | None = None
    mig_profiles: Sequence[str] = ()
    sources: Mapping[str, str] = field(default_factory=dict[str, str])


def expectations_hash(content: Mapping[str, Any]) -> str:
    """Return the hash of an expectations JSON; a hash in `content` is ignored."""
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
    """Return the expectations for nodes of a machine type, from the facts of the catalogue.

    `driver_version` is the exact driver; None: any version from the GPU's first driver branch on. `mig_layouts`
    has one entry per GPU, an empty one if MIG is off; None: no expectation for MIG. Unknown facts give no
    expectation."""
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
        # Only on HGX baseboards: a card's slot may be older or x8, and a superchip connects its GPU by NVLink-C2C.
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
    """Return the MIG expectations; without `mig-mode` if only some of the GPUs have instances."""
    sliced = [bool(layout) for layout in layouts]
    expect: dict[str, Expectation] = {}
    if len(set(sliced)) == 1:
        expect["mig-mode"] = Expectation(sliced[0], source)
    if any(sliced):
        expect["mig-instances"] = Expectation([dict(layout) for layout in layouts], source)
    return expect
