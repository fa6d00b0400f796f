"""ConfigMaps with a hash of their content in the name.

The GPU Operator does not notice an edited ConfigMap, so changed content gets a new name. Source:
NVIDIA/gpu-operator issue 1144.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from gpu_platform.base.yaml_text import TextDumper


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigMapPlan:
    """A ConfigMap whose name contains a hash of its content, so that a change rolls out automatically."""

    name: str
    namespace: str
    data: Mapping[str, str]


def content_hash(content: object) -> str:
    """Return ten hex digits of the hash of a JSON value. Equal values have equal hashes on every machine."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def pinned_name(name: str, content: object) -> str:
    """Return `name` with a hash of the content appended.

    With a pool name of at most 40 characters, the result fits into a label value of at most 63 characters.
    """
    return f"{name}-{content_hash(content)}"


def as_yaml(document: Mapping[str, Any]) -> str:
    """Return a document as YAML, with its keys in their given order."""
    # pyrefly: ignore[partially-unknown-type] - incomplete in PyYAML's stubs
    return yaml.dump(dict(document), Dumper=TextDumper, sort_keys=False, default_flow_style=False)


def hashed_config_map(prefix: str, namespace: str, data: Mapping[str, str]) -> ConfigMapPlan:
    """Return a ConfigMap named `<prefix>-<hash of data>`."""
    return ConfigMapPlan(name=f"{prefix}-{content_hash(dict(data))}", namespace=namespace, data=data)
