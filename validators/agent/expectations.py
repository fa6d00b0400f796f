"""Parses the JSON file with a node's expectations, using only the standard library.

The models that write this file are in `gpu_platform/planning/expectations/section.py`.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from validators.agent.snapshot import Snapshot

if TYPE_CHECKING:
    from typing import TypeGuard  # available since Python 3.10

VERSION = 1
_CLASS_KEYS = {"name", "codes", "remedy", "ends", "processes", "meanings"}
_TEXT_KEYS = {"codes", "text", "class", "ends_faults"}
NIC_KINDS = ("efa", "mlx5", "infiniband", "gvnic")
RACK = "rack"
"""Value of `fabric-state` if the fabric manager that registers the GPUs belongs to the rack, not to the machine.
"""


@dataclass(frozen=True)
class Expectation:
    """The node agent's expected value for one check, its source, and its tolerance in percent of the value.

    With `rolled`, the platform sets the value on one node after another. A different value on a node that is still
    waiting is then unknown, not a fault. `mig_config` is the value of the label `nvidia.com/mig.config` on a node
    that is no longer waiting, or "" if the check does not depend on the label. With `at_boot`, a node changes to
    the value only when it boots, so a different value does not fail the node. `remedy` describes how to set the
    value on a node. If it is empty, the remedy of the check applies.
    """

    value: Any
    source: str
    tolerance_percent: float = 0.0
    rolled: bool = False
    mig_config: str = ""
    at_boot: bool = False
    remedy: str = ""


@dataclass(frozen=True)
class Expectations:
    """Expectations for one node, by check id."""

    pool: str = ""
    machine_type: str = ""
    hash: str = ""
    expect: Mapping[str, Expectation] = field(default_factory=dict[str, Expectation])


class Mistake(NamedTuple):
    """One mistake in an expectations file, with its path, the value found, the allowed values, and a fix or ""."""

    path: str
    found: str
    allowed: str
    fix: str = ""

    def __str__(self) -> str:
        text = f"{self.path}: found {self.found}; allowed: {self.allowed}"
        return f"{text}. Fix: {self.fix}" if self.fix else text


class BadExpectations(Exception):
    """The expectations are invalid. `problems` contains every mistake."""

    def __init__(self, source: str, problems: list[Mistake]) -> None:
        self.problems = problems
        count = f"{len(problems)} problem{'s' if len(problems) != 1 else ''}"
        super().__init__("\n".join([f"{source}: {count}", *(f"  - {problem}" for problem in problems)]))


_OF_HEALTH = (
    "throttle-reasons",
    "temperature",
    "firmware",
    "ecc-errors",
    "error-growth",
    "sram-errors",
    "retired-pages",
    "recovery-action",
    "application-clocks",
    "power-limit",
)


def health_of(snapshot: Snapshot, more: Mapping[str, Expectation] | None = None) -> Expectations:
    """Return the expectations that every healthy node meets, for a run without an expectations file.

    `more` adds expectations that the agent does not contain itself, such as the table of Xid errors.
    """
    source = "always: a healthy GPU"
    expect = {check: Expectation(True, source) for check in _OF_HEALTH}
    if any(gpu.remapped_rows.supported for gpu in snapshot.gpus):
        expect["row-remapping"] = Expectation(True, source)
    return Expectations(expect={**expect, **(more or {})})


def parse_expectations(text: str, source: str) -> Expectations:
    """Parse the text of an expectations file. `source` is the file's name in errors.

    Raises BadExpectations, which lists every mistake.
    """
    try:
        data: Any = json.loads(text)
    except ValueError as error:
        raise BadExpectations(
            source, [Mistake("(the whole file)", f"text that is not JSON ({error})", "JSON")]
        ) from None
    if not _is_object(data):
        raise BadExpectations(source, [Mistake("(the whole file)", _kind(data), "an object")])
    problems: list[Mistake] = []
    if data.get("version") != VERSION:
        problems.append(Mistake("version", json.dumps(data.get("version")), str(VERSION)))
    for key in ("pool", "machine_type", "hash"):
        if not isinstance(data.get(key, ""), str):
            problems.append(Mistake(key, _kind(data[key]), "text"))
    entries = data.get("expect")
    expect: dict[str, Expectation] = {}
    if _is_object(entries):
        expect = {check: _entry(check, entry, problems) for check, entry in entries.items()}
    else:
        problems.append(Mistake("expect", _kind(entries), "an object of check ids"))
    if problems:
        raise BadExpectations(source, problems)
    return Expectations(data.get("pool", ""), data.get("machine_type", ""), data.get("hash", ""), expect)


def _entry(check: str, entry: Any, problems: list[Mistake]) -> Expectation:  # noqa: ANN401 - JSON
    path = f"expect.{check}"
    if check not in _VALUES:
        close = difflib.get_close_matches(check, _VALUES, n=1)
        hint = f"did you mean {close[0]!r}?" if close else ""
        problems.append(Mistake(path, "an unknown check", ", ".join(_VALUES), hint))
        return Expectation(None, "")
    if not _is_object(entry) or "value" not in entry:
        problems.append(Mistake(path, _kind(entry), "an object with value and source"))
        return Expectation(None, "")
    allowed, fits = _VALUES[check]
    value = entry["value"]
    if not fits(value):
        problems.append(Mistake(f"{path}.value", json.dumps(value), allowed))
    source = entry.get("source", "")
    if not isinstance(source, str):
        problems.append(Mistake(f"{path}.source", _kind(source), "text"))
    tolerance = entry.get("tolerance_percent", 0.0)
    if not _is_number(tolerance) or not 0 <= tolerance < 100:
        allowed = "a number from 0 to less than 100"
        problems.append(Mistake(f"{path}.tolerance_percent", json.dumps(tolerance), allowed))
    mig_config = entry.get("mig_config", "")
    rolled, at_boot = (entry.get(key, False) for key in ("rolled", "at_boot"))
    for key, flag in (("rolled", rolled), ("at_boot", at_boot)):
        if not isinstance(flag, bool):
            problems.append(Mistake(f"{path}.{key}", _kind(flag), "true or false"))
    remedy = entry.get("remedy", "")
    for key, text in (("mig_config", mig_config), ("remedy", remedy)):
        if not isinstance(text, str):
            problems.append(Mistake(f"{path}.{key}", _kind(text), "text"))
    return Expectation(value, source, tolerance, rolled, mig_config, at_boot, remedy)


def _kind(value: object) -> str:
    names: Mapping[object, str] = {
        dict: "an object",
        list: "a list",
        str: "text",
        bool: "a truth value",
        type(None): "nothing",
    }
    return names.get(type(value), "a number")


def _is_object(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_layout(value: object) -> bool:
    return _is_object(value) and all(_is_count(count) for count in value.values())


def _is_layouts(value: object) -> bool:
    if _is_object(value):
        return set(value) == {"all"} and _is_layout(value["all"])
    return _is_list(value) and all(_is_layout(each) for each in value)


def _is_nics(value: object) -> bool:
    return _is_object(value) and len(value) == 1 and set(value) <= set(NIC_KINDS) and _is_layout(value)


def xid_codes(text: str) -> list[int]:
    """Parse numbers and ranges such as `8 11 39-41`, and return all numbers.

    Raises ValueError for any other text.
    """
    ranges = [part.partition("-") for part in text.split()]
    return [code for first, _, last in ranges for code in range(int(first), int(last or first) + 1)]


def _is_xid_table(value: object) -> bool:
    if not _is_object(value) or not _is_list(value.get("classes")) or not _is_list(value.get("texts")):
        return False
    entries = [*value["classes"], *value["texts"]]
    try:
        return (
            all(_is_object(one) and isinstance(xid_codes(one["codes"]), list) for one in entries)
            and all(set(one) >= _CLASS_KEYS for one in value["classes"])
            and all(set(one) >= _TEXT_KEYS for one in value["texts"])
            and {one["class"] for one in value["texts"]} <= {one["name"] for one in value["classes"]}
            and any(not one["codes"] for one in value["classes"])
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return False


def _is_version(value: object) -> bool:
    return isinstance(value, str) and all(part.isdecimal() for part in value.split("."))


def _are_neighbours(value: object) -> bool:
    if _is_object(value):
        return all(_is_list(nics) and bool(nics) for nics in value.values())
    return value in NIC_KINDS


_COUNT = ("a whole number, 0 or more", _is_count)
_TRUTH: tuple[str, Callable[[Any], bool]] = ("true or false", lambda value: isinstance(value, bool))
_TRUE: tuple[str, Callable[[Any], bool]] = ("true", lambda value: value is True)
_VERSION = ('a driver version such as "580.65.06" or "450"', _is_version)
_VALUES: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "gpu-count": _COUNT,
    "gpu-product": ("NVML's product name", lambda value: isinstance(value, str) and bool(value)),
    "gpu-memory": ("MiB, more than 0", lambda value: _is_count(value) and value > 0),
    "driver-version": _VERSION,
    "driver-minimum": _VERSION,
    "ecc": _TRUTH,
    "mig-mode": _TRUTH,
    "mig-instances": ('a list of {profile: count} per GPU, or {"all": {profile: count}}', _is_layouts),
    "row-remapping": _TRUE,
    "nvlink-count": _COUNT,
    "fabric-state": (f'true or "{RACK}"', lambda value: value is True or value == RACK),
    "fabric-manager": _TRUE,
    "pcie-width": _COUNT,
    "pcie-generation": _COUNT,
    "numa-nodes": (
        "a list of one NUMA node per GPU",
        lambda value: _is_list(value) and all(_is_count(node) for node in value),
    ),
    "throttle-reasons": _TRUE,
    "temperature": _TRUE,
    "firmware": _TRUE,
    "xid": ("the catalogue's table of Xid errors", _is_xid_table),
    "peer-access": _TRUE,
    "ecc-errors": _TRUE,
    "error-growth": _TRUE,
    "sram-errors": _TRUE,
    "retired-pages": _TRUE,
    "recovery-action": _TRUE,
    "persistence": _TRUTH,
    "compute-mode": ("default or exclusive-process", lambda value: value in ("default", "exclusive-process")),
    "application-clocks": _TRUE,
    "power-limit": _TRUE,
    "processes": _TRUE,
    "fabric-nics": (f"a kind of NIC ({', '.join(NIC_KINDS)}) and its count", _is_nics),
    "fabric-mtu": (f"a kind of NIC ({', '.join(NIC_KINDS)}) and its MTU", _is_nics),
    "imex-domain": _TRUE,
    "locked-memory": _TRUE,
    "nic-affinity": (
        f"one of {', '.join(NIC_KINDS)}, or the PCI addresses of NICs by the address of their GPU",
        _are_neighbours,
    ),
}
