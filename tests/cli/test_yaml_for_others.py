"""YAML that the program writes for kubectl and the Pulumi CLI.

Their libraries read some texts as numbers or booleans that PyYAML reads as strings.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.base.yaml_text import manifest_text
from gpu_platform.cli.export import write_manifests
from gpu_platform.live.contents import Contents
from gpu_platform.planning.config_maps import as_yaml
from tests.support.command_line import run

Write = Callable[[dict[str, Any], Path], str]


def _exported(manifest: dict[str, Any], folder: Path) -> str:
    file = folder / "backup.yaml"
    write_manifests(Contents("vision", objects=(manifest,)), file, with_secrets=True)
    return file.read_text("utf-8")


@pytest.mark.parametrize(
    "write",
    [lambda manifest, _: manifest_text(manifest), lambda manifest, _: as_yaml(manifest), _exported],
    ids=["rendered", "config-map", "exported"],
)
# The texts look like a commit's hash, a number or a boolean of YAML 1.1.
@pytest.mark.parametrize(
    "text", ["25921e05", "1E6", "12e03", "012345678901", "0o17", "y", "N", "no", "1_000", ".5"]
)
def test_a_text_that_looks_like_a_number_is_quoted(write: Write, text: str, tmp_path: Path) -> None:
    manifest: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "vision", "labels": {"commit": text}},
        "data": {text: text},
    }
    written = write(manifest, tmp_path)
    assert f"commit: '{text}'" in written
    assert f"'{text}': '{text}'" in written
    assert yaml.safe_load(written)["data"] == {text: text}


def test_init_quotes_the_name_of_a_team(tmp_path: Path) -> None:
    out = tmp_path / "Pulumi.mine.yaml"
    ran = run("init", "mine", "--team", "1e5", "--member", "group:a", "--out", str(out))
    assert ran.code == 0, ran.err
    assert "name: '1e5'" in out.read_text("utf-8")
    assert run("check", str(out)).code == 0
