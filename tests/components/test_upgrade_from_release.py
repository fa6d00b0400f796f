"""An upgrade from the last release deletes no resources, and replaces no node and restarts no pod of a team unless
the upgrade notes announce it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from difflib import unified_diff
from typing import Final

import pytest

from gpu_platform.deploy.recorded.record import STACK_TYPE, ResourceRecord
from tests.components.released import STACKS, Part, current, masked, parts, released

# Changes that the upgrade notes of CHANGELOG.md announce, by the end of the URN. Empty this after a release.
ANNOUNCED: Final[Mapping[str, str]] = {
    "assistants/RayCluster/ray": "Ray clusters of the stack file restart once, with a larger `/dev/shm`",
}


@pytest.mark.parametrize("stack", STACKS)
def test_pulumi_finds_each_resource_of_the_last_release(stack: str) -> None:
    names = {masked(urn) for urns in _names(current(stack)).values() for urn in urns}
    lost = [urn for urn in released(stack) if urn not in names]
    assert not lost, "Pulumi would delete these resources; add an alias, or an upgrade note:\n" + "\n".join(lost)


@pytest.mark.parametrize("stack", STACKS)
def test_nothing_that_disrupts_has_changed_since_the_release(stack: str) -> None:
    before, resources = released(stack), current(stack)
    now, names = parts(resources), _names(resources)
    changed = {
        urn: (before[name], now[urn])
        for urn, known in ((masked(one.urn), names[one.urn]) for one in resources)
        for name in map(masked, known)
        if name in before and before[name] != now[urn] and not urn.endswith(tuple(ANNOUNCED))
    }
    assert not changed, (
        "these replace nodes, or restart pods of teams; undo them, or announce them:\n"
        + "\n".join(f"{urn}\n{_difference(*pair)}" for urn, pair in changed.items())
    )


def _difference(before: Part, after: Part) -> str:
    was, now = (json.dumps(part, indent=1).splitlines() for part in (before, after))
    return "\n".join(unified_diff(was, now, "release", "now", n=1, lineterm=""))


def _names(resources: Sequence[ResourceRecord]) -> dict[str, tuple[str, ...]]:
    """Return the URNs by which the Pulumi engine finds each resource in an older state.

    A child inherits the aliases of its parent (pulumi, pkg/resource/deploy/step_generator.go, generateAliases;
    read 2026-12-01).
    """
    found: dict[str, tuple[str, ...]] = {}
    for one in resources:
        own = (one.urn, *one.aliases)
        if one.parent in found:
            head, parent_type = one.parent.rsplit("::", 2)[0], one.parent.rsplit("::", 2)[1].rsplit("$", 1)[-1]
            for parent in found[one.parent][1:]:
                before = parent.rsplit("::", 2)[1]
                if parent_type != STACK_TYPE:
                    own += tuple(
                        f"{head}::{before}${urn.rsplit('::', 2)[1].rsplit('$', 1)[-1]}::{urn.rsplit('::', 1)[1]}"
                        for urn in own
                    )
        found[one.urn] = tuple(dict.fromkeys(own))
    return found
