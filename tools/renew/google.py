"""Compute Engine machine types as Google describes them: machineTypes.aggregatedList.

The call requires the permission compute.machineTypes.list. Prices are not updated, because Cloud Billing lists
prices of components, and names the machine type only in a component's description.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from gpu_platform.catalog import Catalog
from gpu_platform.online.google.api import GoogleApi
from tools.renew.compare import DescribedType, Value

_PERMISSION: Final = "compute.machineTypes.list"
_ARCHITECTURES: Final = {"X86_64": "amd64", "ARM64": "arm64"}


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of Google Cloud."""
    command.add_argument("--region", action="append", required=True, help="compare in this region; repeatable")
    command.add_argument("--project", required=True, help="your project for the requests to Google Cloud")


def look_up(options: argparse.Namespace, ours: Collection[str], _: Catalog) -> Sequence[DescribedType]:
    """Return the machine types that Google describes, of which `ours` are in the catalogue."""
    return described(GoogleApi(), options.project, ours)


def described(api: GoogleApi, project: str, wanted: Collection[str]) -> Sequence[DescribedType]:
    """Return the types with NVIDIA GPUs and the types in `wanted`. Raises NotLookedAt if credentials, a permission
    or a connection is missing, and Disabled if the project has not enabled the API.
    """
    found: dict[str, Mapping[str, Any]] = {}
    zones: dict[str, dict[str, list[str]]] = {}
    for zone, one in _pages(api, project):
        name: str = one["name"]
        if name in wanted or _accelerator(one):
            found[name] = one
            zones.setdefault(name, {}).setdefault(zone.rpartition("-")[0], []).append(zone)
    return [
        DescribedType(
            name,
            _facts(one),
            str(_accelerator(one).get("guestAcceleratorType", "")),
            zones={region: tuple(sorted(of)) for region, of in zones[name].items()},
        )
        for name, one in found.items()
    ]


def _pages(api: GoogleApi, project: str) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """Yield each machine type with its zone."""
    query: dict[str, str] = {}
    while True:
        answer = api.get("compute", f"compute/v1/projects/{project}/aggregated/machineTypes", _PERMISSION, **query)
        scopes: Mapping[str, Mapping[str, Any]] = answer.get("items") or {}
        for scope, content in scopes.items():
            for one in content.get("machineTypes") or ():
                yield scope.rpartition("/")[2], one
        if not answer.get("nextPageToken"):
            return
        query["pageToken"] = answer["nextPageToken"]


def _accelerator(machine_type: Mapping[str, Any]) -> Mapping[str, Any]:
    accelerators: Sequence[Mapping[str, Any]] = machine_type.get("accelerators") or ()
    found = [one for one in accelerators if one["guestAcceleratorType"].startswith("nvidia-")]
    return found[0] if found else {}


def _facts(machine_type: Mapping[str, Any]) -> Mapping[str, Value]:
    facts: dict[str, Value] = {
        "gpu_count": _accelerator(machine_type).get("guestAcceleratorCount", 0),
        "vcpu": machine_type["guestCpus"],
        "memory_mib": machine_type["memoryMb"],
    }
    if accelerator := _accelerator(machine_type):
        facts["accelerator_label"] = accelerator["guestAcceleratorType"]
    if architecture := _ARCHITECTURES.get(machine_type.get("architecture", "")):
        facts["arch"] = architecture
    return facts
