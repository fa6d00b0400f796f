"""Writes YAML for people, kubectl and the Pulumi CLI, with multi-line strings as blocks and without aliases."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import yaml

# Strings that kubectl (go.yaml.in/yaml v2.4.4, resolve.go) or the Pulumi CLI (gopkg.in/yaml.v3) would read as
# numbers or booleans if they had no quotes. PyYAML does not quote a string that PyYAML itself reads as a string
# (yaml/pyyaml#860). Read 2026-11-30.
_READ_OTHERWISE: Final = re.compile(
    r"[-+]?(\.[0-9_]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9_]+)?|[-+]?0o[0-7_]+|[yYnN]"
)


class TextDumper(yaml.CSafeDumper):
    """Dumper that quotes strings that some YAML library would otherwise read as a number or a boolean."""

    def ignore_aliases(self, data: object) -> bool:
        """Return True, so that a value that occurs several times is written out each time."""
        return True


def _represent_text(_dumper: TextDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else "'" if _READ_OTHERWISE.fullmatch(text) else None
    return yaml.ScalarNode("tag:yaml.org,2002:str", text, style=style)


TextDumper.add_representer(str, _represent_text)


def manifest_text(*manifests: Mapping[str, Any]) -> str:
    """Return manifests as a YAML file. Keys keep their order."""
    return yaml.dump_all(  # pyrefly: ignore[partially-unknown-type] - incomplete in PyYAML's stubs
        [dict(one) for one in manifests], Dumper=TextDumper, sort_keys=False, allow_unicode=True, width=1000
    )


def mapping_text(manifest: Mapping[str, Any]) -> str:
    """Return a manifest as YAML, with name and namespace before other metadata."""
    metadata: Mapping[str, Any] = manifest.get("metadata") or {}
    names = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
    return manifest_text({**manifest, "metadata": {**names, **metadata}})
