"""Parses the JSON profile of a simulated node: machine type, driver, MIG layout and faults."""

from __future__ import annotations

import json
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from gpu_platform.base.errors import BadInput, Problem
from gpu_platform.stack.problems import problems_of
from sandbox.nvml.faults import AnyFault, Fault

_Parsed = TypeVar("_Parsed")
MigLayout = dict[str, Annotated[int, Field(ge=0)]]


class Nics(BaseModel):
    """Fabric NICs in the sysfs of a simulated node. With `mtu` 0 they have no network interfaces, like EFA
    devices.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["efa", "mlx5", "infiniband", "gvnic"]
    count: int = Field(ge=1, le=64)
    mtu: int = Field(default=0, ge=0)


class NodeProfile(BaseModel):
    """Configuration of the simulated NVML of one node.

    `mig_layout` has one entry per GPU. An entry maps profile names to numbers of instances. `{}` means MIG mode
    without instances, and None means that MIG mode is off. An empty tuple means that MIG is off on all GPUs.
    Without `nics`, sysfs has no PCI devices. UUIDs and serial numbers depend on `node`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    machine_type: str
    driver_version: str
    mig_layout: tuple[MigLayout | None, ...] = ()
    faults: tuple[AnyFault, ...] = ()
    nics: Nics | None = None
    node: str = "node"


_FAULTS: TypeAdapter[tuple[Fault, ...]] = TypeAdapter(tuple[AnyFault, ...])


_PROFILE: TypeAdapter[NodeProfile] = TypeAdapter(NodeProfile)


def parse_profile(text: str | bytes, source: str = "profile") -> NodeProfile:
    """Parse a NodeProfile from JSON.

    Raises BadInput, which lists every mistake. `source` names the file in errors.
    """
    return _parse(_PROFILE, text, source)


def parse_faults(text: str | bytes, source: str = "faults") -> tuple[Fault, ...]:
    """Parse a JSON list of faults, the value of a node's key in the faults ConfigMap.

    Raises BadInput, which lists every mistake. `source` names the ConfigMap and key in errors.
    """
    return _parse(_FAULTS, text, source)


def _parse(adapter: TypeAdapter[_Parsed], text: str | bytes, source: str) -> _Parsed:
    try:
        data = json.loads(text)
    except ValueError:
        raise BadInput(
            source, [Problem("(all)", "text that is not JSON", "JSON", "put keys and strings in quotes")]
        ) from None
    try:
        return adapter.validate_json(text)
    except ValidationError as error:
        raise BadInput(source, problems_of(error, data, adapter)) from None
