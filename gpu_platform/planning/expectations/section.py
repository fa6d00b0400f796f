"""Types of expected facts of nodes.

The node agent reads the JSON form of `Expectations` with its own parser, for it has only the standard library
(`validators/agent/expectations.py`).
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
RESOURCE_SLICES: Final = "ResourceSlices"  # key of `NodeExpectation.sources` for what the DRA driver publishes

MigLayout = Mapping[str, int]  # expected instances by MIG profile; empty: no instances


@dataclass(frozen=True, slots=True)
class Expectation:
    """One expected value of one check, and where it comes from.

    `rolled`: the platform gives it to one node after another, so that another value is unknown, not a fault, of a
    node that waits for its turn. `mig_config`: the value of the label `nvidia.com/mig.config` that asks for it; a
    node that has this label already waits for nothing. `at_boot`: a node gets it when it boots, and
    `up` boots none for another value, so that the node passes with it. `remedy`: what gives it to a node.
    """

    value: Any
    source: str
    tolerance_percent: float | None = None
    rolled: bool = False
    mig_config: str = ""
    at_boot: bool = False
    remedy: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; of the optional fields those that are set."""
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
    """What the node agent compares one node with: expectations by check id."""

    pool: str
    machine_type: str
    expect: Mapping[str, Expectation]

    @property
    def by_agent(self) -> bool:
        """Whether the node agent runs on the nodes: it reads GPUs, so not on those of a CPU pool."""
        return bool(self.expect)

    @property
    def hash(self) -> str:
        """Twelve hex digits of the content; a report with another hash is stale."""
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
    """What a pool's `v1/Node` objects should have.

    `allocatable` holds every `nvidia.com/*` resource (others are unexpected) and the NICs' resources, with their
    counts; `taints` are in the form of the API. `sources`: origin of each expectation, by resource name, label key
    or taint key. `gpu_devices`: whole GPUs that the DRA driver publishes in ResourceSlices, with instances of
    `mig_profiles` beside them; None: it publishes nothing for the node. `nvlink_domain`: most nodes of the NVLink
    domain that all nodes of the pool are in; None: NVLink ends at the node. `one_clique`: all nodes have the same
    label of it. `nic_devices`: NICs that DRA driver `nic_driver` publishes.
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
        """The resources of `allocatable` that are GPUs, their shares or their instances."""
        return {name: count for name, count in self.allocatable.items() if names.is_gpu_resource(name)}


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolExpectations:
    """Expected facts of every node of a pool: by NVML on the node, and of its Node object."""

    hardware: Expectations
    node: NodeExpectation


def expectations_hash(content: Mapping[str, Any]) -> str:
    """Return the hash of an Expectations JSON, whether or not `content` carries one already."""
    rest = {key: value for key, value in content.items() if key != "hash"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
