"""Types for the expected facts of nodes.

The node agent reads the JSON form of `Expectations` with its own parser, because the agent uses only the standard
library (`validators/agent/expectations.py`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gpu_platform.base import names

VERSION: Final = 1
NIC_DEVICES: Final = "NIC devices"  # key of `NodeExpectation.sources` for NICs in ResourceSlices
RESOURCE_SLICES: Final = "ResourceSlices"  # key of `NodeExpectation.sources` for GPUs in ResourceSlices

MigLayout = Mapping[str, int]  # expected number of instances by MIG profile; empty means no instances


@dataclass(frozen=True, slots=True)
class Expectation:
    """The expected value for one check, with the source of the expectation.

    `rolled` means that the platform changes nodes one after another. While a node waits for its turn, a different
    value is reported as unknown and not as a fault. `mig_config` is the value of the label `nvidia.com/mig.config`
    that requests the expected value. A node that already has this label value no longer waits. `at_boot` means
    that a node receives the value when it boots. Because `up` reboots no node to change the value, a node with
    another value passes. `remedy` describes how a node gets the value.
    """

    value: Any
    source: str
    tolerance_percent: float | None = None
    rolled: bool = False
    mig_config: str = ""
    at_boot: bool = False
    remedy: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form. It contains an optional field only if the field is set."""
        form: dict[str, Any] = {"value": self.value, "source": self.source}
        if self.tolerance_percent is not None:
            form["tolerance_percent"] = self.tolerance_percent
        if self.rolled:
            form["rolled"] = True
        if self.mig_config:
            form["mig_config"] = self.mig_config
        if self.at_boot:
            form["at_boot"] = True
        if self.remedy:
            form["remedy"] = self.remedy
        return form


@dataclass(frozen=True, slots=True)
class Expectations:
    """The expected values for one node, by check id. The node agent compares them with the actual values."""

    pool: str
    machine_type: str
    expect: Mapping[str, Expectation]

    @property
    def by_agent(self) -> bool:
        """Whether the node agent runs on the nodes. It reads GPUs, so it does not run on nodes of a CPU pool."""
        return bool(self.expect)

    @property
    def hash(self) -> str:
        """Twelve hex digits of the hash of the content. A report with another hash is stale."""
        return expectations_hash(self._content())

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form that the node agent reads."""
        content = self._content()
        return {**content, "hash": expectations_hash(content)}

    def _content(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "pool": self.pool,
            "machine_type": self.machine_type,
            "expect": {check: entry.to_json() for check, entry in sorted(self.expect.items())},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeExpectation:
    """The expected content of a pool's `v1/Node` objects.

    `allocatable` contains the counts of the `nvidia.com/*` resources and of the NIC resources. Any other
    `nvidia.com/*` resource is unexpected. `taints` have the form of the API. `sources` contains the origin of each
    expectation, by resource name, label key or taint key. `gpu_devices` is the number of whole GPUs that the DRA
    driver publishes in ResourceSlices, in addition to instances of `mig_profiles`. It is None if the driver
    publishes nothing for the node. All nodes of the pool are in one NVLink domain, and `nvlink_domain` is the
    maximum number of nodes in it. It is None if NVLink does not connect nodes. `one_clique` means that all nodes
    have the same label for that domain. `nic_devices` is the number of NICs that the DRA driver `nic_driver`
    publishes.
    """

    pool: str
    allocatable: Mapping[str, int]
    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, str]] = ()
    gpu_devices: int | None = None
    mig_profiles: Sequence[str] = ()
    nvlink_domain: int | None = None
    one_clique: bool = False
    nic_driver: str | None = None
    nic_devices: int = 0
    sources: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def gpu_resources(self) -> Mapping[str, int]:
        """The resources in `allocatable` that are GPUs, GPU shares or MIG instances."""
        return {name: count for name, count in self.allocatable.items() if names.is_gpu_resource(name)}


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolExpectations:
    """The expected facts of every node of a pool: the NVML readings on the node, and its Node object."""

    hardware: Expectations
    node: NodeExpectation


def expectations_hash(content: Mapping[str, Any]) -> str:
    """Return the hash of the JSON form of Expectations. A hash that `content` already contains is ignored."""
    rest = {key: value for key, value in content.items() if key != "hash"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
