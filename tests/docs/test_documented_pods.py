"""A team's namespace, which enforces `restricted`, admits the pods in the documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import pytest
import yaml
from pages import Block, blocks

from gpu_platform.catalog import load_catalog
from gpu_platform.planning.teams.team_plans import is_reserved_namespace
from tests.support.restricted import violations

REFUSED = "refused manifest"


def pod_specs(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield every pod spec in a manifest of any kind."""
    if isinstance(value, Mapping):
        mapping = cast("Mapping[str, Any]", value)
        if "containers" in mapping:
            yield mapping
            return
        for inner in mapping.values():
            yield from pod_specs(inner)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from pod_specs(inner)


def pods_of(block: Block) -> list[Mapping[str, Any]]:
    """Return the pods of a manifest that a reader creates in a team's namespace."""
    manifest = yaml.safe_load(block.text)
    namespace = manifest["metadata"].get("namespace", "")
    return [] if is_reserved_namespace(namespace, load_catalog()) else list(pod_specs(manifest))


def shown(mark: str) -> list[Block]:
    return [block for block in blocks("yaml") if block.mark == mark and pods_of(block)]


ADMITTED = [*shown("manifest"), *shown("manifest of a team with defaults")]


@pytest.mark.parametrize("block", ADMITTED, ids=str)
def test_a_documented_pod_of_a_team_satisfies_restricted(block: Block):
    assert [violations(spec) for spec in pods_of(block)] == [[] for _ in pods_of(block)]


@pytest.mark.parametrize("block", shown(REFUSED), ids=str)
def test_a_pod_that_is_documented_as_refused_violates_restricted(block: Block):
    assert all(violations(spec) for spec in pods_of(block))


def test_documents_show_pods_of_teams_and_one_that_is_refused():
    assert len(ADMITTED) >= 7
    assert shown(REFUSED)
