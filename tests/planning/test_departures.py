"""A team that disappears counts as renamed if a team with a new name has the same members and quota."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gpu_platform.planning.changes.departures import TeamChange, renamed
from gpu_platform.planning.changes.deployed import member_text
from gpu_platform.planning.teams.section import TeamMember, TeamPlan

ADA = TeamMember(kind="User", name="ada@example.com")
GROUP = TeamMember(kind="Group", name="vision")
ROBOT = TeamMember(kind="ServiceAccount", name="deployer", namespace="ci")


def team(name: str, *members: TeamMember, gpus: str = "4") -> TeamPlan:
    return TeamPlan(namespace=name, quota={"requests.nvidia.com/gpu": gpus}, members=members or (GROUP,))


def outputs(*teams: TeamPlan) -> Mapping[str, Any]:
    return {
        one.namespace: {"quota": dict(one.quota), "members": [member_text(member) for member in one.members]}
        for one in teams
    }


def test_the_same_members_in_another_order_under_a_new_name_are_a_rename() -> None:
    before = outputs(team("vision", ADA, GROUP, ROBOT), team("search", GROUP))
    now = [team("perception", ROBOT, ADA, GROUP), team("search", GROUP)]

    assert renamed(before, now, "vision") == "perception"


@pytest.mark.parametrize(
    "now",
    [
        [team("perception", ADA)],
        [team("perception", GROUP, gpus="5")],
        [team("perception", GROUP), team("sight", GROUP)],
        [],
    ],
    ids=["other members", "another quota", "two that fit", "nobody"],
)
def test_anything_else_is_no_rename(now: list[TeamPlan]) -> None:
    assert renamed(outputs(team("vision")), now, "vision") is None


def test_a_team_that_was_there_before_is_no_new_name() -> None:
    before = outputs(team("vision"), team("search"))
    assert renamed(before, [team("search")], "vision") is None


@pytest.mark.parametrize("previous", [None, {}, "text"])
def test_a_deployment_of_an_older_release_tells_no_rename(previous: object) -> None:
    assert renamed(previous, [team("perception")], "vision") is None


def test_a_leaving_team_is_described_with_its_data_and_next_command() -> None:
    leaves = TeamChange(team="vision", fate="retained", stack="shop", holds="1 volume claim (2 TiB), 3 pods")
    assert str(leaves) == (
        "team vision leaves: namespace vision is retained with 1 volume claim (2 TiB), 3 pods; the team's members "
        "lose access, and new pods get no GPU there; to delete the namespace for good, run "
        "`gpu-platform team remove shop vision`"
    )


def test_a_rename_says_that_the_data_stays_under_the_old_name() -> None:
    change = TeamChange(team="vision", fate="retained", stack="shop", holds="1 Secret", renamed_to="perception")
    assert "team vision → perception looks like a rename" in str(change)
    assert "the data stays in vision" in str(change)
