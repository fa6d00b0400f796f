from __future__ import annotations

import json

from gpu_platform.base.paths import STACKS_DIR
from gpu_platform.catalog import load_catalog
from gpu_platform.cli.schema import SCHEMA_FILE, stack_file_schema
from policies import rules


def test_the_written_schema_is_what_the_models_say() -> None:
    written = json.loads(SCHEMA_FILE.read_text("utf-8"))
    assert written == stack_file_schema(), "the models have changed: run gpu-platform schema"


def test_editors_complete_machine_types_profiles_and_rules() -> None:
    definitions = stack_file_schema()["$defs"]
    catalog = load_catalog()
    machines = {one["const"]: one["description"] for one in definitions["MachineType"]["oneOf"]}
    assert machines.keys() >= {name for name, one in catalog.machine_types.items() if one.has_gpus}
    assert machines["p5.48xlarge"].startswith("8 x NVIDIA H100 80GB HBM3, 192 vCPU, 2048 GiB")
    profiles = {one["const"]: one["description"] for one in definitions["MigProfile"]["oneOf"]}
    assert "a100-80gb" in profiles["1g.10gb"]
    offered = definitions["Policy"]["properties"]["rules"]["properties"]
    assert offered.keys() >= {rule.id for rule in rules()}
    assert "GPU nodes have a NoSchedule taint" in offered["gpu-node-taint"]["description"]


def test_no_shipped_stack_file_holds_what_pulumi_writes_for_one_passphrase() -> None:
    files = list(STACKS_DIR.glob("Pulumi.*.yaml"))
    assert files
    for file in files:
        text = file.read_text("utf-8")
        assert "encryptionsalt" not in text, file.name
        assert "secretsprovider" not in text, file.name


def test_every_shipped_stack_file_names_the_schema_in_its_first_line() -> None:
    files = list(STACKS_DIR.glob("Pulumi.*.yaml"))
    assert files
    for file in files:
        first = file.read_text("utf-8").splitlines()[0]
        assert first == f"# yaml-language-server: $schema=./{SCHEMA_FILE.name}", file.name
