"""`gpu-platform schema`: write the JSON Schema of stack files, for editors."""

from __future__ import annotations

import json
from typing import Any

from gpu_platform.base.errors import ExitCode
from gpu_platform.base.paths import STACKS_DIR
from gpu_platform.base.quantity import counted
from gpu_platform.catalog import Catalog, MachineType, load_catalog
from gpu_platform.stack import CONFIG_KEY, stack_adapter
from policies import OWN_ID, Level, rules

SCHEMA_FILE = STACKS_DIR / "platform.schema.json"


def stack_file_schema() -> dict[str, Any]:
    """Return the JSON Schema of a stack file."""
    platform = stack_adapter().json_schema()
    definitions = platform.pop("$defs", {})
    _add_catalogue(definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "gpu-platform stack file",
        "type": "object",
        "required": ["config"],
        "properties": {
            "config": {
                "type": "object",
                "required": [CONFIG_KEY],
                "properties": {CONFIG_KEY: platform},
            }
        },
        "$defs": definitions,
    }


def _add_catalogue(definitions: dict[str, Any]) -> None:
    """Add the machine types, MIG profiles and policy rules, so that editors can complete and explain them."""
    catalog = load_catalog()
    machines = [_option(one.name, _machine_text(one, catalog)) for one in catalog.machine_types.values()]
    definitions["MachineType"] = {"description": "Machine type of the catalogue.", "oneOf": machines}
    pool = definitions["Pool"]["properties"]["machine_type"]
    pool.pop("type", None)
    pool["$ref"] = "#/$defs/MachineType"
    profiles: dict[str, list[str]] = {}
    for gpu in catalog.gpus.values():
        for profile in gpu.mig.profiles if gpu.mig is not None else ():
            profiles.setdefault(profile.name, []).append(gpu.model)
    definitions["MigProfile"] = {
        "description": "Name of a MIG profile.",
        "oneOf": [_option(name, f"of {', '.join(models)}") for name, models in sorted(profiles.items())],
    }
    # Editors complete these names. `check` also accepts other spellings, or suggests the right name.
    profile_names = {"anyOf": [{"$ref": "#/$defs/MigProfile"}, {"type": "string"}]}
    for name in ("GpuUnits", "Quota"):
        for field in ("mig", "mig_shared"):
            definitions[name]["properties"][field]["propertyNames"] = profile_names
    for name in ("Mig", "MigDevices"):
        for branch in _mappings(definitions[name]["properties"]["layout"]):
            branch["propertyNames"] = profile_names
    level = {"enum": [one.value for one in Level]}
    definitions["Policy"]["properties"]["rules"] |= {
        "additionalProperties": False,
        "patternProperties": {OWN_ID: {"anyOf": [level, {"type": "object"}]}},
        "properties": {
            "all": {**level, "description": "Level of every rule that has no separate level."},
            **{
                rule.id: {
                    "description": f"{rule.description} Severity {rule.severity.value}.",
                    "anyOf": [
                        level,
                        {
                            "type": "object",
                            "additionalProperties": False,
                            "properties": {"enforcementLevel": level, **rule.config_schema},
                        },
                    ],
                }
                for rule in sorted(rules(), key=lambda rule: rule.id)
            },
        },
    }


def _option(value: str, description: str) -> dict[str, str]:
    return {"const": value, "description": description}


def _mappings(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of a schema that describe a mapping: branches of `anyOf`, or the schema itself."""
    branches: list[dict[str, Any]] = schema.get("anyOf", [schema])
    return [branch for branch in branches if branch.get("type") == "object"]


def _machine_text(machine: MachineType, catalog: Catalog) -> str:
    memory = f"{machine.vcpu} vCPU, {machine.memory_mib / 1024:g} GiB"
    if not machine.has_gpus:
        return f"No GPUs, {memory}"
    nics = f", {counted(machine.rdma_interfaces, 'NIC')} for GPU traffic" if machine.rdma_interfaces else ""
    return f"{machine.gpu_count} x {catalog.gpu_of(machine).product}, {memory}{nics}"


def print_schema() -> ExitCode:
    """Print the schema."""
    print(json.dumps(stack_file_schema(), indent=2, ensure_ascii=False))
    return ExitCode.GOOD


def write_schema(*, check_only: bool) -> ExitCode:
    """Write the schema to stacks/. With `check_only`, only check whether the file matches the models."""
    text = json.dumps(stack_file_schema(), indent=2, ensure_ascii=False) + "\n"
    current = SCHEMA_FILE.read_text("utf-8") if SCHEMA_FILE.is_file() else ""
    if check_only:
        if current == text:
            return ExitCode.GOOD
        print(f"{SCHEMA_FILE.name} is out of date: run `gpu-platform schema`")
        return ExitCode.FINDING
    SCHEMA_FILE.write_text(text, "utf-8")
    print(f"wrote {SCHEMA_FILE}")
    return ExitCode.GOOD
