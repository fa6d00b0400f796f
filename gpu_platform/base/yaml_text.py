"""Writes Kubernetes objects as readable YAML, with multi-line strings as blocks and without aliases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml


class _Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


def _represent_text(_dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return yaml.ScalarNode("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def manifest_text(*manifests: Mapping[str, Any]) -> str:
    """Return manifests as a YAML file. Keys keep their order."""
    return yaml.dump_all(  # pyrefly: ignore[partially-unknown-type] - incomplete in PyYAML's stubs
        [dict(one) for one in manifests], Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000
    )


def mapping_text(manifest: Mapping[str, Any]) -> str:
    """Return a manifest as YAML, with name and namespace before other metadata."""
    metadata: Mapping[str, Any] = manifest.get("metadata") or {}
    names = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
    return manifest_text({**manifest, "metadata": {**names, **metadata}})
