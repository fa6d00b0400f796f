"""Converts a recorded program to a deployment of version 3, the format of `pulumi stack export`.

Source: sdk/go/common/apitype/core.go in pulumi/pulumi, read 2026-08-21. Values that exist only after a deployment
have placeholders: the zero time for times, and Pulumi's unknown value for ids of cloud resources.
"""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from typing import Any, Final

from gpu_platform.deploy.recorded.properties import UNKNOWN
from gpu_platform.deploy.recorded.record import PROVIDER_PREFIX, RecordedProgram, ResourceRecord, provider_id

_ZERO_TIME: Final = "0001-01-01T00:00:00Z"


def deployment_manifest() -> dict[str, str]:
    """Return the deployment's manifest. `magic` is the hash of the version, which the engine checks."""
    cli_version = f"v{version('pulumi')}"
    magic = hashlib.sha256(cli_version.encode()).hexdigest()
    return {"time": _ZERO_TIME, "magic": magic, "version": cli_version}


def deployment_resources(recorded: RecordedProgram) -> list[dict[str, Any]]:
    """Return the deployment's resources, with each default provider before the first resource that uses it."""
    resources: list[dict[str, Any]] = []
    providers: dict[tuple[str, str], str] = {}
    for record in recorded.resources:
        provider = record.provider
        if record.custom and not provider and not record.type.startswith(PROVIDER_PREFIX):
            wanted = (record.type.partition(":")[0], record.package_version)
            if wanted not in providers:
                default = _default_provider(recorded, *wanted)
                providers[wanted] = f"{default['urn']}::{default['id']}"
                resources.append(default)
            provider = providers[wanted]
        resources.append(_resource(record, provider))
    return resources


def _default_provider(recorded: RecordedProgram, package: str, package_version: str) -> dict[str, Any]:
    type_ = f"{PROVIDER_PREFIX}{package}"
    name = "_".join(["default", *package_version.split(".")]) if package_version else "default"
    urn = f"urn:pulumi:{recorded.stack}::{recorded.project}::{type_}::{name}"
    inputs = {"version": package_version} if package_version else {}
    return {"urn": urn, "custom": True, "id": provider_id(urn), "type": type_, "inputs": inputs, "outputs": inputs}


def _resource(record: ResourceRecord, provider: str) -> dict[str, Any]:
    """Return the entry of one resource. As in an export, the entry omits empty fields."""
    entry: dict[str, Any] = {"urn": record.urn, "custom": record.custom}
    if record.custom:
        entry["id"] = record.id or UNKNOWN
    entry["type"] = record.type
    optional = {
        "inputs": record.inputs,
        "outputs": record.outputs,
        "parent": record.parent,
        "protect": record.protect,
        "external": record.external,
        "dependencies": list(record.dependencies),
        "provider": provider,
        "propertyDependencies": {key: list(urns) for key, urns in record.property_dependencies.items()},
        # A deployment has no field for delete-before-replace. The program passes this option to the engine.
        "retainOnDelete": record.retain_on_delete,
        "deletedWith": record.deleted_with,
        "ignoreChanges": list(record.ignore_changes),
        "replaceOnChanges": list(record.replace_on_changes),
    }
    entry.update({key: value for key, value in optional.items() if value})
    return entry
