"""Reads CustomResourceDefinitions from a folder of YAML files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from gpu_platform.base.errors import BadInput, Problem

_KIND: Final = "CustomResourceDefinition"

Document = dict[str, Any]


def read_definitions(folder: Path) -> list[Document]:
    """Return the CustomResourceDefinitions in the YAML files of `folder`.

    Raises:
        BadInput: the folder is missing or has no definitions, or a file is not YAML or contains other objects.
    """
    problems: list[Problem] = []
    definitions: list[Document] = []
    files = sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")])
    if not files:
        problems.append(Problem(str(folder), "no YAML file", f"a folder with {_KIND} manifests"))
    for file in files:
        try:
            documents = [document for document in _documents(file) if document is not None]
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            problems.append(Problem(str(file), f"invalid YAML ({error})", f"{_KIND} manifests"))
            continue
        for document in documents:
            match document:
                case {"kind": "CustomResourceDefinition", "metadata": {"name": str()}}:
                    definitions.append(document)
                case {"kind": kind}:
                    problems.append(Problem(str(file), str(kind), f"a {_KIND} with a name"))
                case _:
                    problems.append(Problem(str(file), "a document without kind", f"a {_KIND} with a name"))
    if problems:
        raise BadInput("CRD folder", problems)
    return definitions


def _documents(file: Path) -> Iterator[Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is 10 times as fast as PyYAML's own parser
    yield from yaml.load_all(file.read_text(), Loader=loader)
