"""Parses the JSON profile of a simulated node: machine type, driver, MIG layout and faults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from gpu_platform.errors import BadInput, Problem, did_you_mean
from sandbox.nvml.faults import FAULT_KINDS, AnyFault, Fault

MigLayout = dict[str, Annotated[int, Field(ge=0)]]


class Nics(BaseModel):
    """NICs of the fabric in the sysfs of a simulated node; `mtu` 0: without network interfaces, as EFA."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["efa", "mlx5", "gvnic"]
    count: int = Field(ge=1, le=64)
    mtu: int = Field(default=0, ge=0)


class NodeProfile(BaseModel):
    """Configuration of the simulated NVML of one node.

    `mig_layout` has one entry per GPU: instances by profile name, `{}` for MIG mode without instances, None for
    MIG mode off; an empty tuple means MIG off on all GPUs. Without `nics` sysfs has no PCI devices. UUIDs and
    serial numbers depend on `node`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    machine_type: str
    driver_version: str
    mig_layout: tuple[MigLayout | None, ...] = ()
    faults: tuple[AnyFault, ...] = ()
    nics: Nics | None = None
    node: str = "node"


_FAULTS: TypeAdapter[tuple[Fault, ...]] = TypeAdapter(tuple[AnyFault, ...])


def parse_profile(text: str | bytes, source: str = "profile") -> NodeProfile:
    """Parse a NodeProfile from JSON.

    Raises BadInput with every mistake; `source` names the file in errors.
    """
    try:
        return NodeProfile.model_validate_json(text)
    except ValidationError as error:
        raise _bad_input(error, source) from None


def parse_faults(text: str | bytes, source: str = "faults") -> tuple[Fault, ...]:
    """Parse a JSON list of faults, the value of a node's key in the faults ConfigMap.

    Raises BadInput with every mistake; `source` names the ConfigMap and key in errors.
    """
    try:
        return _FAULTS.validate_json(text)
    except ValidationError as error:
        raise _bad_input(error, source) from None


def _bad_input(error: ValidationError, source: str) -> BadInput:
    return BadInput(source, [_problem(entry) for entry in error.errors(include_url=False)])


def _problem(entry: Mapping[str, Any]) -> Problem:
    """Convert a pydantic error to a problem with path, found, allowed and fix."""
    where = tuple(part for part in entry["loc"] if part not in FAULT_KINDS)  # without the union's branch
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where).lstrip(".") or "(all)"
    context: Mapping[str, Any] = entry.get("ctx", {})
    match entry["type"]:
        case "union_tag_invalid":
            found = str(context["tag"])
            return Problem(
                f"{path}.kind".lstrip("."), repr(found), ", ".join(FAULT_KINDS), did_you_mean(found, FAULT_KINDS)
            )
        case "union_tag_not_found":
            return Problem(f"{path}.kind".lstrip("."), "nothing", ", ".join(FAULT_KINDS), "add kind")
        case "missing":
            return Problem(path, "nothing", "a value, because the field is required", "add it")
        case "extra_forbidden":
            return Problem(
                path, f"an unknown field with {entry['input']!r}", "the fields of this fault", "remove it"
            )
        case "json_invalid":
            return Problem(path, "text that is not JSON", "JSON", str(context.get("error", "")))
        case _:
            return Problem(path, repr(entry["input"]), str(entry["msg"]).removeprefix("Value error, "))
