"""`gpu-platform schema`: write the JSON Schema of stack files, for editors."""

from __future__ import annotations

import json
from typing import Any

from gpu_platform.errors import ExitCode
from gpu_platform.paths import STACKS_DIR
from gpu_platform.spec import CONFIG_KEY, stack_adapter

SCHEMA_FILE = STACKS_DIR / "platform.schema.json"


def stack_file_schema() -> dict[str, Any]:
    """Return the JSON Schema of a stack file."""
    platform = stack_adapter().json_schema()
    definitions = platform.pop("$defs", {})
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


def write_schema(*, check_only: bool) -> ExitCode:
    """Write the schema to stacks/; with `check_only` only check whether the file matches the models."""
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
