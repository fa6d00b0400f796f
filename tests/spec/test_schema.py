from __future__ import annotations

import json

from gpu_platform.cli.schema import SCHEMA_FILE, stack_file_schema
from gpu_platform.paths import STACKS_DIR


def test_the_written_schema_is_what_the_models_say() -> None:
    assert json.loads(SCHEMA_FILE.read_text("utf-8")) == stack_file_schema()


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
